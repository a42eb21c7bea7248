#include "server/cluster/copy_place.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/server/cluster/fake_disk.h"

namespace psgd {
namespace {

constexpr int kMostOperations = 8;  // of one replacement, or of one start

class CopyPlaceTest : public testing::Test {
 protected:
  std::unique_ptr<CopyPlace> Start() {
    disk_.operations = -1;
    disk_.read.clear();
    return std::make_unique<CopyPlace>(
        std::make_unique<FakeDisk>(&disk_, [] { return DurableShardOptionsOf(Config(), 0, 1); }));
  }
  // Whether a process that starts has a shard. It must not fail.
  bool Recovers() {
    const auto shard = Start()->Recover();
    EXPECT_TRUE(shard.ok()) << shard.status();
    return shard.ok() && *shard != nullptr;
  }

  // A new shard is in the place of the old one, which lies aside and could not be discarded.
  std::unique_ptr<CopyPlace> ReplaceAndKeepTheOld() {
    disk_.place = "old";
    auto place = Start();
    EXPECT_TRUE(place->Recover().ok());
    EXPECT_TRUE(place->Empty().ok());
    disk_.place = "new";
    disk_.keeps_old = true;
    place->Settle();
    EXPECT_EQ(disk_.aside, "old");
    return place;
  }

  FakeDiskState disk_;
};

TEST_F(CopyPlaceTest, WithoutAFinishedImageNothingIsThere) {
  EXPECT_FALSE(Recovers());
  disk_.place = "unfinished";
  EXPECT_FALSE(Recovers());
  disk_.aside = "unfinished";
  EXPECT_FALSE(Recovers());
}

TEST_F(CopyPlaceTest, AWholeImageReplacesWhatWasThere) {
  disk_.place = "old";
  const auto place = Start();
  ASSERT_TRUE(place->Recover().ok());
  ASSERT_TRUE(place->Empty().ok());
  EXPECT_EQ(disk_.aside, "old");
  disk_.place = "new";
  place->Settle();
  EXPECT_EQ(disk_.aside, "");
  EXPECT_TRUE(Recovers());
  EXPECT_EQ(disk_.read, "new");
}

TEST_F(CopyPlaceTest, WhatWasThereComesBackIfTheImageCannotBeWritten) {
  for (const bool full : {true, false}) {
    disk_ = {.place = "old", .full = full};
    const auto place = Start();
    ASSERT_TRUE(place->Recover().ok());
    EXPECT_EQ(place->Empty().ok(), !full);
    EXPECT_TRUE(place->Restore().ok());
    EXPECT_EQ(disk_.read, "old");
    EXPECT_EQ(disk_.place, "old");
    EXPECT_EQ(disk_.aside, "");
  }
  disk_ = {};
  const auto place = Start();
  ASSERT_TRUE(place->Empty().ok());
  EXPECT_TRUE(absl::IsNotFound(place->Restore().status()));
}

// Each pair of numbers is a process that dies during a replacement, and one that dies in its start.
TEST_F(CopyPlaceTest, WhereverProcessesDieAWholeShardIsThere) {
  for (const bool written : {true, false}) {
    for (int dies = 1; dies <= kMostOperations; ++dies) {
      for (int dies_again = 1; dies_again <= kMostOperations; ++dies_again) {
        SCOPED_TRACE(absl::StrCat("dies at ", dies, ", then at ", dies_again));
        disk_ = {.place = "old"};
        const auto place = Start();
        ASSERT_TRUE(place->Recover().ok());
        disk_.operations = dies;
        if (place->Empty().ok() && written) {
          disk_.place = "new";
          place->Settle();
        } else {
          (void)place->Restore();
        }
        const bool whole = disk_.place == "new";
        const auto next = Start();
        disk_.operations = dies_again;
        (void)next->Recover();
        EXPECT_TRUE(Recovers());
        EXPECT_EQ(disk_.read, whole ? "new" : "old");
        EXPECT_EQ(disk_.aside, "");
      }
    }
  }
}

TEST_F(CopyPlaceTest, AStartDoesNotGoOnWithoutWhatItCannotRead) {
  for (const char* place : {"damaged", "unreadable"}) {
    disk_ = {.place = place};
    EXPECT_FALSE(Start()->Recover().ok());
    EXPECT_EQ(disk_.place, place);
  }
  for (const char* place : {"damaged", "unreadable"}) {
    disk_ = {.place = place, .aside = "old"};
    EXPECT_FALSE(Start()->Recover().ok()) << "the place may hold what was acknowledged last";
    EXPECT_EQ(disk_.place, place);
    EXPECT_EQ(disk_.aside, "old");
  }
}

TEST_F(CopyPlaceTest, WhatCouldNotBeDiscardedDoesNotReplaceADamagedPlace) {
  ReplaceAndKeepTheOld();
  disk_.place = "damaged";
  disk_.keeps_old = false;
  const absl::Status refused = Start()->Recover().status();
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
  EXPECT_NE(refused.message().find("move both folders away"), absl::string_view::npos) << refused;
  EXPECT_EQ(disk_.aside, "old");
}

// Steps were acknowledged since: it must not come back.
TEST_F(CopyPlaceTest, WhatCouldNotBeDiscardedDoesNotComeBack) {
  const auto place = ReplaceAndKeepTheOld();
  EXPECT_FALSE(place->Empty().ok());
  EXPECT_TRUE(place->Restore().ok());
  EXPECT_EQ(disk_.read, "new");
  disk_.keeps_old = false;
  ASSERT_TRUE(place->Empty().ok());
  EXPECT_EQ(disk_.aside, "new");
}

TEST_F(CopyPlaceTest, ADroppedCopyLeavesNothingOld) {
  for (int dies = 1; dies <= 3; ++dies) {
    disk_ = {.place = "new", .aside = "old"};
    const auto place = Start();
    disk_.operations = dies;
    place->Drop();
    EXPECT_EQ(Recovers(), dies < 3);
    EXPECT_EQ(disk_.read, dies < 3 ? "new" : "");
  }
}

}  // namespace
}  // namespace psgd
