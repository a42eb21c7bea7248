// The parts of a checkpoint that are written, and those that wait for room on a full disk.
#include "server/cluster/checkpoint_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Time kBegin = std::chrono::hours(1);
constexpr Duration kSecond = std::chrono::seconds(1);

ShardReceipt OfValues(uint64_t values) {
  ShardReceipt receipt;
  receipt.set_values(values);
  return receipt;
}

TEST(CheckpointParts, AreSealedOnceEachShardHasWritten) {
  CheckpointParts parts(2);
  EXPECT_FALSE(parts.Written(7, 1, OfValues(10)));
  EXPECT_FALSE(parts.Written(7, 1, OfValues(11))) << "the same part, which a new leader wrote";
  EXPECT_FALSE(parts.sealing());
  EXPECT_TRUE(parts.Written(7, 0, OfValues(20)));
  EXPECT_TRUE(parts.sealing());
  ASSERT_EQ(parts.receipts().size(), 2u);
  EXPECT_EQ(parts.receipts().at(0).values(), 20u);
  EXPECT_EQ(parts.receipts().at(1).values(), 11u);
  parts.End();
  EXPECT_FALSE(parts.sealing());
  EXPECT_THAT(parts.receipts(), IsEmpty());
}

TEST(CheckpointParts, OfAnEarlierCheckpointDoNotCount) {
  CheckpointParts parts(2);
  EXPECT_FALSE(parts.Written(7, 0, OfValues(10)));
  EXPECT_FALSE(parts.Written(8, 1, OfValues(20)));
  EXPECT_EQ(parts.receipts().size(), 1u);
  EXPECT_TRUE(parts.Written(8, 0, OfValues(10)));
}

TEST(CheckpointParts, ThatFindNoRoomAreDueAgainOnce) {
  CheckpointParts parts(3);
  EXPECT_FALSE(parts.TakeDue(kBegin));
  parts.LackRoom(2, absl::ResourceExhaustedError("the disk is full"), kBegin);
  parts.LackRoom(0, absl::ResourceExhaustedError("still full"), kBegin);
  EXPECT_EQ(parts.no_room().message(), "the disk is full") << "the first cause is told";
  EXPECT_FALSE(parts.TakeDue(kBegin));
  EXPECT_TRUE(parts.TakeDue(kBegin + kSecond));
  EXPECT_FALSE(parts.TakeDue(kBegin + 2 * kSecond)) << "they are being written";
  EXPECT_THAT(parts.TakeUnwritten(), ElementsAre(0, 2));
  parts.LackRoom(2, absl::ResourceExhaustedError("still full"), kBegin);
  parts.Written(7, 2, OfValues(10));  // a copy elsewhere leads by now, and gave its part
  EXPECT_THAT(parts.TakeUnwritten(), IsEmpty());

  parts.LackRoom(std::nullopt, absl::ResourceExhaustedError("for the seal"), kBegin);
  EXPECT_TRUE(parts.TakeDue(kBegin + kSecond));
  EXPECT_THAT(parts.TakeUnwritten(), IsEmpty()) << "all parts are written";
  parts.LackRoom(1, absl::ResourceExhaustedError("full"), kBegin);
  parts.End();
  EXPECT_TRUE(parts.no_room().ok());
  EXPECT_FALSE(parts.TakeDue(kBegin + kSecond));
  EXPECT_THAT(parts.TakeUnwritten(), IsEmpty());
}

TEST(CheckpointParts, WaitForRoomUntilSomebodyAsksTheRunToStop) {
  CheckpointParts parts(1);
  EXPECT_TRUE(parts.WaitsOn(false, kSecond, kBegin));
  EXPECT_TRUE(parts.WaitsOn(false, kSecond, kBegin + std::chrono::hours(24)));
  EXPECT_FALSE(parts.WaitsOn(true, kSecond, kBegin + std::chrono::hours(24)));
  parts.End();
  // If the run was asked to stop before the wait began, the parts wait for two seconds.
  EXPECT_TRUE(parts.WaitsOn(true, 2 * kSecond, kBegin));
  EXPECT_TRUE(parts.WaitsOn(true, 2 * kSecond, kBegin + kSecond));
  EXPECT_FALSE(parts.WaitsOn(true, 2 * kSecond, kBegin + 2 * kSecond));
}

}  // namespace
}  // namespace psgd
