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

ShardPart::Entries Encoded(const JournalEntries& steps) {
  ShardPart::Entries encoded;
  EncodeEntries(steps.first, steps.entries, &encoded);
  return encoded;
}

TEST(Entries, AreDecodedAsTheyWere) {
  const auto came = DecodeEntries(Encoded(Steps(41, 10, 1u << 20)));
  ASSERT_TRUE(came.ok()) << came.status();
  EXPECT_EQ(came->first, 41u);
  ASSERT_EQ(came->last(), 50u);
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(came->entries[i].head.message().push().seq(), 41 + i);
    EXPECT_EQ(came->entries[i].payloads[0].size(), 1u << 20);
  }
}

TEST(Entries, ThatAreDamagedAreRefused) {
  ShardPart::Entries steps = Encoded(Steps(1, 1, 10));
  steps.mutable_values(0)->back() ^= 1;
  EXPECT_TRUE(absl::IsDataLoss(DecodeEntries(steps).status()));
  // Under another number.
  steps = Encoded(Steps(1, 1, 10));
  steps.set_first(2);
  EXPECT_TRUE(absl::IsDataLoss(DecodeEntries(steps).status()));
}

TEST(ShardPartReader, RefusesPiecesWithoutTheirBeginning) {
  ShardPartReader reader;
  ShardPart pair;
  pair.mutable_pair()->set_key("key");
  EXPECT_THAT(reader.Add(pair).status().message(), HasSubstr("came before what it belongs to"));
  EXPECT_FALSE(reader.Add(ShardPart()).ok());
}

}  // namespace
}  // namespace psgd
