#include "server/cluster/spread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace psgd {
namespace {

using testing::ElementsAre;
using Owners = std::vector<uint32_t>;

Owners Spread(Owners owners, std::vector<uint32_t> servers) {
  return SpreadShards(std::move(owners), servers);
}

TEST(SpreadShards, IsEvenAndMovesNoMoreThanThatTakes) {
  EXPECT_THAT(Spread({1, 1, 1, 1, 1}, {1, 2}), ElementsAre(1, 1, 1, 2, 2));
  EXPECT_THAT(Spread({1, 1, 1, 2, 2}, {1, 2, 3}), ElementsAre(1, 1, 3, 2, 2));
  EXPECT_THAT(Spread({1, 2, 1, 2}, {1, 2}), ElementsAre(1, 2, 1, 2));
}

TEST(SpreadShards, WhatAServerHeldThatLeavesGoesToTheOthers) {
  EXPECT_THAT(Spread({1, 2, 3, 2, 3}, {1, 3}), ElementsAre(1, 1, 3, 1, 3));
  EXPECT_THAT(Spread({2, 2, 2}, {1}), ElementsAre(1, 1, 1));
}

TEST(SpreadShards, MoreServersThanShards) {
  EXPECT_THAT(Spread({1, 1}, {1, 2, 3}), ElementsAre(1, 2));
}

TEST(SpreadShards, IsEvenFromWherever) {
  for (uint32_t shards = 1; shards < 20; ++shards) {
    for (uint32_t servers = 1; servers < 6; ++servers) {
      Owners owners;
      for (uint32_t s = 0; s < shards; ++s) owners.push_back(1 + s * s % 7);
      std::vector<uint32_t> among;
      for (uint32_t s = 1; s <= servers; ++s) among.push_back(s);
      const Owners spread = SpreadShards(owners, among);
      for (const uint32_t server : among) {
        const auto held = std::count(spread.begin(), spread.end(), server);
        EXPECT_GE(held, shards / servers);
        EXPECT_LE(held, (shards + servers - 1) / servers);
      }
      EXPECT_EQ(SpreadShards(spread, among), spread);
    }
  }
}

}  // namespace
}  // namespace psgd
