#include "server/control/shard_moves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Do = ShardMoves::Do;

// Takes the next step, which must be this one.
void Take(ShardMoves& moves, Do what, uint32_t server,
          const absl::Status& status = absl::OkStatus()) {
  const auto step = moves.Next(true);
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->what, what);
  EXPECT_EQ(step->shard, 1u);
  EXPECT_EQ(step->server, server);
  EXPECT_EQ(moves.Done(status).has_value(), what == Do::kDrop);
}

constexpr size_t kManyBytes = 100u << 20;

// Follows that many bytes; `last`: after which the old one is to stand still, as it does if it can.
void Follow(ShardMoves& moves, uint32_t server, size_t bytes, bool last, bool can = true) {
  const auto step = moves.Next(true);
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->what, Do::kFollow);
  EXPECT_EQ(step->server, server);
  EXPECT_EQ(step->last, last);
  EXPECT_FALSE(moves.Done(absl::OkStatus(), {bytes, last && can}).has_value());
}

TEST(ShardMoves, WhoIsPushedFasterThanThatCanFollowIsStopped) {
  ShardMoves moves({1, 1});
  moves.SetTarget({1, 2});
  Take(moves, Do::kGive, 1);
  Take(moves, Do::kTake, 2);
  Follow(moves, 2, kManyBytes, false);
  Follow(moves, 2, kManyBytes, false);
  Follow(moves, 2, kManyBytes, true);
  Take(moves, Do::kWriteDown, 2);
}

// Shard 1 is to go from server 1 to server 2.
ShardMoves OneMove() {
  ShardMoves moves({1, 1});
  moves.SetTarget({1, 2});
  return moves;
}

TEST(ShardMoves, OneStepAfterTheOther) {
  ShardMoves moves = OneMove();
  EXPECT_FALSE(moves.settled());
  EXPECT_FALSE(moves.Next(false).has_value());
  Take(moves, Do::kGive, 1);
  Take(moves, Do::kTake, 2);
  Follow(moves, 2, kManyBytes, false);
  Follow(moves, 2, 100, false);
  // Not yet: it is tried again.
  Follow(moves, 2, 0, true, false);
  Follow(moves, 2, 0, true);
  EXPECT_THAT(moves.owners(), ElementsAre(1, 1));
  Take(moves, Do::kWriteDown, 2);
  EXPECT_THAT(moves.owners(), ElementsAre(1, 2));
  // Who is away is told when it comes back.
  Take(moves, Do::kGoOn, 2, absl::UnavailableError("away"));
  Take(moves, Do::kDrop, 1, absl::UnavailableError("away"));
  EXPECT_TRUE(moves.settled());
}

TEST(ShardMoves, WhatFailsIsUndoneAndTriedAgain) {
  for (const Do fails : {Do::kGive, Do::kTake, Do::kFollow, Do::kWriteDown}) {
    ShardMoves moves = OneMove();
    for (const Do what : {Do::kGive, Do::kTake, Do::kFollow, Do::kFollow, Do::kWriteDown}) {
      const auto step = moves.Next(true);
      ASSERT_EQ(step->what, what);
      moves.Done(what == fails ? absl::UnavailableError("not now") : absl::OkStatus());
      if (what == fails) break;
    }
    EXPECT_THAT(moves.owners(), ElementsAre(1, 1));
    Take(moves, Do::kGoOn, 1);
    Take(moves, Do::kDrop, 2);
    EXPECT_FALSE(moves.settled());
    Take(moves, Do::kGive, 1);
  }
}

TEST(ShardMoves, WhatCannotBeStaysWhereItIs) {
  ShardMoves moves = OneMove();
  Take(moves, Do::kGive, 1);
  Take(moves, Do::kTake, 2, absl::ResourceExhaustedError("its disk is full"));
  Take(moves, Do::kGoOn, 1);
  Take(moves, Do::kDrop, 2);
  EXPECT_TRUE(moves.settled());
  EXPECT_THAT(moves.owners(), ElementsAre(1, 1));
}

TEST(ShardMoves, AServerThatWasAwayEndsItsMove) {
  for (const bool old_one : {true, false}) {
    ShardMoves moves({2, 2});
    moves.SetTarget({2, 3});
    Take(moves, Do::kGive, 2);
    Take(moves, Do::kTake, 3);
    // It goes on with what is its own: what it gave is old.
    const auto back = old_one ? moves.Back(2, {0, 1}) : moves.Back(3, {1});
    EXPECT_THAT(back.lost, IsEmpty());
    EXPECT_EQ(back.go_on.size(), old_one ? 2u : 0u);
    EXPECT_EQ(back.drop.size(), old_one ? 0u : 1u);
    Take(moves, Do::kGoOn, 2);
    Take(moves, Do::kDrop, 3);
    EXPECT_THAT(moves.owners(), ElementsAre(2, 2));
  }
}

TEST(ShardMoves, WhatIsWrittenDownIsNotUndone) {
  ShardMoves moves({2, 2});
  moves.SetTarget({2, 3});
  Take(moves, Do::kGive, 2);
  Take(moves, Do::kTake, 3);
  Follow(moves, 3, 0, false);
  Follow(moves, 3, 0, true);
  Take(moves, Do::kWriteDown, 3);
  EXPECT_THAT(moves.Back(2, {0, 1}).drop, ElementsAre(1));
  EXPECT_THAT(moves.Back(3, {1}).go_on, ElementsAre(1));
  Take(moves, Do::kGoOn, 3);
  Take(moves, Do::kDrop, 2);
  EXPECT_THAT(moves.owners(), ElementsAre(2, 3));
}

TEST(ShardMoves, WhoComesBackWithoutItsShardsHasLostThem) {
  ShardMoves moves({2, 2});
  EXPECT_THAT(moves.Back(2, {1, 7}).lost, ElementsAre(0));
  EXPECT_THAT(moves.Back(2, {0, 1, 7}).drop, ElementsAre(7));
}

}  // namespace
}  // namespace psgd
