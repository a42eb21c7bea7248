// Which orders a shard is sent, and how far all shards are.
#include "server/cluster/order_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class OrderProgressTest : public testing::Test {
 protected:
  // Numbers of the orders that shard 0 is sent now.
  std::vector<uint64_t> Sent(uint64_t last) {
    ServerEffects effects;
    progress_.Give(0, place_, last, orders_, now_, &effects);
    std::vector<uint64_t> numbers;
    for (const ServerEffect& effect : effects) {
      const ShardOrderTo& order = std::get<effect::SendOrder>(effect).order;
      EXPECT_EQ(order.server, place_.server);
      EXPECT_EQ(order.link, place_.link);
      EXPECT_EQ(order.epoch, place_.epoch);
      EXPECT_EQ(order.shard, 0u);
      numbers.push_back(order.number);
    }
    return numbers;
  }
  bool Done(uint64_t number, const absl::Status& status = absl::OkStatus()) {
    return progress_.Done(0, place_.epoch, number, status, now_);
  }
  void AddRemovals(size_t count) { orders_.Add(std::vector<ShardCommand>(count, RemoveWorker{})); }

  Time now_ = std::chrono::hours(1);
  OrderProgress::Place place_{.server = 2, .epoch = 5, .link = 7, .written_order = 0};
  OrderBook orders_;
  OrderProgress progress_{2};
};

TEST_F(OrderProgressTest, EachOrderIsSentOnceTheStoreHasIt) {
  AddRemovals(3);
  EXPECT_THAT(Sent(2), ElementsAre(1, 2));
  EXPECT_THAT(Sent(2), IsEmpty());
  EXPECT_THAT(Sent(3), ElementsAre(3));
}

// Its weights are in no record, only in the shards' first images.
TEST_F(OrderProgressTest, AModelIsInstalledBeforeTheStoreHasItAndBeforeLaterOrders) {
  AddRemovals(1);
  orders_.Add({InstallModel{}, RemoveWorker{}});
  EXPECT_THAT(Sent(1), ElementsAre(1, 2));
  EXPECT_THAT(Sent(3), IsEmpty()) << "the shard may lose the weights";
  EXPECT_TRUE(Done(1));
  EXPECT_THAT(Sent(3), IsEmpty());
  EXPECT_TRUE(Done(2));
  EXPECT_THAT(Sent(3), ElementsAre(3));
}

TEST_F(OrderProgressTest, WhatWasOnItsWayOverALostLinkIsSentAgain) {
  AddRemovals(3);
  EXPECT_THAT(Sent(3), ElementsAre(1, 2, 3));
  EXPECT_TRUE(Done(1));
  place_.link = 8;
  EXPECT_THAT(Sent(3), ElementsAre(2, 3));
}

// The book forgets what every shard has written, so nobody would send it again.
TEST_F(OrderProgressTest, AnOrderWhoseAnswerWasLostIsCarriedOutIfTheDiskHasIt) {
  AddRemovals(2);
  EXPECT_THAT(Sent(2), ElementsAre(1, 2));
  ASSERT_TRUE(orders_.Written({2}).ok());
  place_.link = 8;
  place_.written_order = 2;
  EXPECT_THAT(Sent(2), IsEmpty());
  ServerEffects effects;
  progress_.Give(1, {.server = 1, .epoch = 4, .link = 1, .written_order = 2}, 2, orders_, now_,
                 &effects);
  EXPECT_EQ(progress_.CarriedOut(2), 2u);
}

TEST_F(OrderProgressTest, ANewLeadingCopyGetsWhatItsDiskLacks) {
  AddRemovals(3);
  EXPECT_THAT(Sent(3), ElementsAre(1, 2, 3));
  EXPECT_TRUE(Done(3));
  place_ = {.server = 3, .epoch = 6, .link = 9, .written_order = 1};
  EXPECT_THAT(Sent(3), ElementsAre(2, 3));
  EXPECT_FALSE(progress_.Done(0, 5, 3, absl::OkStatus(), now_)) << "the copy before it says this";
  EXPECT_EQ(progress_.CarriedOut(3), 0u) << "nobody has heard of the other shard";
}

TEST_F(OrderProgressTest, AnOrderThatACopyCouldNotTakeIsSentAgainAfterAPause) {
  AddRemovals(2);
  EXPECT_THAT(Sent(2), ElementsAre(1, 2));
  EXPECT_FALSE(Done(1, absl::UnavailableError("it does not lead yet")));
  EXPECT_THAT(Sent(2), IsEmpty());
  now_ += std::chrono::seconds(1);
  EXPECT_THAT(Sent(2), ElementsAre(1, 2));
  EXPECT_TRUE(Done(1, absl::InternalError("it never will")));
  EXPECT_FALSE(Done(1)) << "it is known";
}

TEST_F(OrderProgressTest, AllHaveCarriedOutWhatTheSlowestHas) {
  AddRemovals(3);
  Sent(3);
  ServerEffects effects;
  progress_.Give(1, {.server = 1, .epoch = 4, .link = 1, .written_order = 2}, 3, orders_, now_,
                 &effects);
  EXPECT_TRUE(Done(3));
  EXPECT_EQ(progress_.CarriedOut(3), 2u);
  EXPECT_TRUE(progress_.Done(1, 4, 3, absl::OkStatus(), now_));
  EXPECT_EQ(progress_.CarriedOut(3), 3u);
  EXPECT_FALSE(progress_.Done(2, 4, 3, absl::OkStatus(), now_)) << "there is no such shard";
}

}  // namespace
}  // namespace psgd
