// A server's record and its shards do not fit, because a machine lost power before their writes
// were on disk. The order book must notice.
#include "server/coordinator/order_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/server/shard/shard_fixture.h"

namespace psgd {
namespace {

std::vector<ShardCommand> Removals(uint32_t count) {
  std::vector<ShardCommand> commands;
  for (uint32_t worker = 0; worker < count; ++worker)
    commands.push_back(RemoveWorker{ShardFixture::Key(worker)});
  return commands;
}

TEST(OrderBookTest, OrdersAreKeptUntilAllShardsHaveWrittenThemDown) {
  OrderBook book;
  book.Add(Removals(5));
  EXPECT_TRUE(book.Written({3, 5}).ok());
  EXPECT_EQ(book.orders().front().number, 4u);
  EXPECT_TRUE(book.Written({0, 5}).ok()) << "one that has not said anything";
  EXPECT_TRUE(book.Written({5, 5}).ok());
  EXPECT_TRUE(book.orders().empty());
}

TEST(OrderBookTest, AShardThatWasGivenMoreThanTheRecordKnowsIsFoundOut) {
  OrderBook book;
  book.Add(Removals(5));
  const absl::Status status = book.Written({5, 6});
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("shard 1 has carried out the coordinator's orders up to 6"));
}

TEST(OrderBookTest, AShardThatLacksWhatItHadWrittenDownIsFoundOut) {
  OrderBook book;
  book.Add(Removals(5));
  ASSERT_TRUE(book.Written({4, 3}).ok());
  CoordinatorRecord record;
  book.Save(&record);
  OrderBook again;
  ASSERT_TRUE(again.Restore(record).ok());
  EXPECT_TRUE(again.Check(0, 3).ok());
  EXPECT_TRUE(again.Check(0, 5).ok());
  EXPECT_TRUE(absl::IsDataLoss(again.Check(0, 2)));
  EXPECT_TRUE(absl::IsDataLoss(again.Check(0, 6)));
}

TEST(OrderBookTest, AShardTakesNoOrderBeforeTheOneThatIsDue) {
  ShardFixture fixture;
  fixture.Install();
  Outbox out;
  EXPECT_TRUE(fixture.core().Execute(AdmitWorker{ShardFixture::Key(0)}, &out, 1).ok());
  EXPECT_TRUE(
      absl::IsDataLoss(fixture.core().Execute(RemoveWorker{ShardFixture::Key(0)}, &out, 3)));
  EXPECT_EQ(fixture.core().last_order(), 1u);
  EXPECT_TRUE(fixture.core().Execute(RemoveWorker{ShardFixture::Key(0)}, &out, 2).ok());
}

}  // namespace
}  // namespace psgd
