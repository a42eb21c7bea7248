#include "server/cluster/kept_steps.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

std::vector<JournalEntry> Entries(std::initializer_list<size_t> sizes) {
  std::vector<JournalEntry> entries;
  for (const size_t size : sizes) {
    entries.emplace_back().payloads.push_back(Bytes::Adopt(std::vector<std::byte>(size)));
  }
  return entries;
}

TEST(KeptSteps, CountsWhatLiesBetweenTwoSteps) {
  KeptSteps kept(11);
  EXPECT_TRUE(kept.empty());
  EXPECT_EQ(kept.last(), 10u);
  EXPECT_EQ(kept.bytes(), 0u);
  kept.Add(Entries({100, 20, 3}));
  EXPECT_EQ(kept.first(), 11u);
  EXPECT_EQ(kept.last(), 13u);
  EXPECT_EQ(kept.bytes(), 123u);
  EXPECT_EQ(kept.BytesAfter(10, 13), 123u);
  EXPECT_EQ(kept.BytesAfter(11, 13), 23u);
  EXPECT_EQ(kept.BytesAfter(11, 12), 20u);
  EXPECT_EQ(kept.BytesAfter(13, 12), 0u);
  EXPECT_EQ(kept.at(12).bytes(), 20u);
}

TEST(KeptSteps, GoFromTheOldestOn) {
  KeptSteps kept(1);
  kept.Add(Entries({100, 20, 3}));
  kept.DropFirst();
  EXPECT_EQ(kept.first(), 2u);
  EXPECT_EQ(kept.bytes(), 23u);
  // Only kept steps count.
  EXPECT_EQ(kept.BytesAfter(0, 2), 20u);
  EXPECT_EQ(kept.BytesAfter(0, 99), 23u);
  kept.Add(Entries({7}));
  EXPECT_EQ(kept.bytes(), 30u);
  EXPECT_EQ(kept.at(4).bytes(), 7u);
}

}  // namespace
}  // namespace psgd
