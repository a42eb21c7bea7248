#include "server/durability/shard_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd {
namespace {

using testing::HasSubstr;

JournalEntries Steps(uint64_t first, int count, size_t bytes) {
  JournalEntries steps{first, {}};
  for (int i = 0; i < count; ++i) {
    JournalEntry& entry = steps.entries.emplace_back();
    entry.head.mutable_message()->mutable_push()->set_seq(first + static_cast<uint64_t>(i));
    entry.payloads.push_back(Bytes::CopyOf(std::vector<std::byte>(bytes, std::byte{7})));
  }
  return steps;
}

std::vector<ShardPart> PartsOf(const JournalEntries& steps) {
  std::vector<ShardPart> parts;
  EXPECT_TRUE(SendEntries(3, steps, [&](const ShardPart& part) {
    parts.push_back(part);
    return true;
  }));
  return parts;
}

TEST(ArrivingShard, HasTheStepsThatWereSentInWhateverPieces) {
  const std::vector<ShardPart> parts = PartsOf(Steps(41, 10, 1u << 20));
  EXPECT_EQ(parts.size(), 3u);
  ArrivingShard arriving;
  for (const ShardPart& part : parts) ASSERT_TRUE(arriving.Add(part).ok());
  const JournalEntries came = arriving.TakeEntries();
  EXPECT_EQ(came.first, 41u);
  ASSERT_EQ(came.last(), 50u);
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(came.entries[i].head.message().push().seq(), 41 + i);
    EXPECT_EQ(came.entries[i].payloads[0].size(), 1u << 20);
  }
  EXPECT_TRUE(arriving.TakeEntries().entries.empty());
}

TEST(ArrivingShard, ForgetsStepsThatOthersDoNotFollow) {
  ArrivingShard arriving;
  for (const uint64_t first : {1, 20}) {
    for (const ShardPart& part : PartsOf(Steps(first, 3, 10))) ASSERT_TRUE(arriving.Add(part).ok());
  }
  const JournalEntries came = arriving.TakeEntries();
  EXPECT_EQ(came.first, 20u);
  EXPECT_EQ(came.entries.size(), 3u);
}

TEST(ArrivingShard, TakesNothingThatIsDamagedOrLacksItsBeginning) {
  ArrivingShard arriving;
  ShardPart steps = PartsOf(Steps(1, 1, 10))[0];
  steps.mutable_entries()->mutable_values(0)->back() ^= 1;
  EXPECT_TRUE(absl::IsDataLoss(arriving.Add(steps).status()));
  // A piece with another number.
  steps = PartsOf(Steps(1, 1, 10))[0];
  steps.mutable_entries()->set_first(2);
  EXPECT_TRUE(absl::IsDataLoss(arriving.Add(steps).status()));
  ShardPart pair;
  pair.mutable_pair()->set_key("key");
  EXPECT_THAT(arriving.Add(pair).status().message(), HasSubstr("came before what it belongs to"));
  EXPECT_FALSE(arriving.Add(ShardPart()).ok());
  EXPECT_THAT(arriving.TakeImage().status().message(), HasSubstr("its image did not"));
}

}  // namespace
}  // namespace psgd
