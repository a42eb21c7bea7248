#include "worker/pulled_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Slices 0 and 1 are of shard 0, slice 2 is of shard 1.
Placement TwoShards() {
  Placement placement;
  for (const char* endpoint : {"a", "b"}) placement.add_endpoints(endpoint);
  for (const uint32_t shard : {0, 0, 1}) {
    placement.add_slices()->set_shard(shard);
    placement.mutable_slices()->rbegin()->set_count(10);
  }
  return placement;
}

PullPart Part(uint32_t slice, uint64_t version, uint64_t mark = 0) {
  PullPart part;
  part.set_slice(slice);
  part.set_version(version);
  part.set_mark(mark);
  return part;
}

Pull Wanted(const PulledSlices& slices, uint32_t shard) {
  Pull pull;
  slices.AddWanted(shard, &pull);
  return pull;
}

// Answers for each slice that has not come.
void Answer(PulledSlices* slices, uint64_t version, uint64_t mark = 0) {
  for (const uint32_t slice : {0, 1, 2})
    EXPECT_TRUE(slices->Add(slice == 2 ? 1 : 0, Part(slice, version, mark), Bytes(), /*life=*/4));
}

TEST(PulledSlices, NameWhatHasNotCome) {
  PulledSlices slices(TwoShards(), 1);
  slices.Begin(3, /*all=*/true, /*aside=*/false);
  EXPECT_EQ(slices.clock(), 3u);
  // Without names a shard sends all that it has.
  EXPECT_THAT(Wanted(slices, 0).slices(), IsEmpty());
  EXPECT_EQ(slices.left(0), 2u);
  EXPECT_TRUE(slices.Add(0, Part(1, 5), Bytes(), 4));
  EXPECT_THAT(Wanted(slices, 0).slices(), ElementsAre(0));
  EXPECT_EQ(slices.left(0), 1u);
  EXPECT_EQ(slices.left(1), 1u);
}

TEST(PulledSlices, WhatIsNotWantedIsIgnored) {
  PulledSlices slices(TwoShards(), 1);
  slices.Begin(1, true, false);
  EXPECT_TRUE(slices.Add(0, Part(2, 5), Bytes(), 4));   // of another shard
  EXPECT_TRUE(slices.Add(0, Part(99, 5), Bytes(), 4));  // of no shard
  EXPECT_TRUE(slices.Add(0, Part(0, 5), Bytes(), 4));
  EXPECT_TRUE(slices.Add(0, Part(0, 6), Bytes(), 4));  // again
  EXPECT_EQ(slices.left(0), 1u);
  EXPECT_EQ(slices.left(1), 1u);
  EXPECT_EQ(slices.slices()[0].version, 5u);
  ASSERT_TRUE(slices.TakeNext().has_value());
  EXPECT_FALSE(slices.TakeNext().has_value());
}

TEST(PulledSlices, KnowWhatIsInstalled) {
  PulledSlices slices(TwoShards(), 1);
  slices.Begin(1, true, false);
  Answer(&slices, 5, /*mark=*/77);
  EXPECT_EQ(slices.installed(0).version, 0u);
  EXPECT_EQ(slices.TakeAll()[2].version, 5u);
  EXPECT_EQ(slices.installed(0).version, 5u);
  EXPECT_EQ(slices.installed(0).life, 4u);

  slices.Begin(2, true, false);
  EXPECT_THAT(Wanted(slices, 0).marks(), ElementsAre(77, 77));
  // The shard has lost pushes.
  EXPECT_FALSE(slices.Add(0, Part(0, 4), Bytes(), 4));
}

TEST(PulledSlices, AsideInstallsNothing) {
  PulledSlices slices(TwoShards(), 1);
  slices.Begin(1, true, /*aside=*/true);
  Answer(&slices, 5);
  slices.TakeAll();
  EXPECT_EQ(slices.installed(0).version, 0u);
}

TEST(PulledSlices, AfterTheFirstPullAFragmentIsEnough) {
  PulledSlices slices(TwoShards(), 3);
  slices.Begin(1, /*all=*/false, false);
  for (const uint32_t slice : {0, 1, 2}) EXPECT_TRUE(slices.Asked(slice));
  Answer(&slices, 5);
  slices.TakeAll();
  slices.Begin(2, /*all=*/false, false);
  int asked = 0;
  for (const uint32_t slice : {0, 1, 2}) {
    EXPECT_EQ(slices.Asked(slice), slices.fragments().Carries(2, slice));
    asked += slices.Asked(slice) ? 1 : 0;
  }
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(slices.left(0) + slices.left(1), 1u);
}

}  // namespace
}  // namespace psgd
