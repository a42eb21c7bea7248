#include "server/cluster/spread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace psgd {
namespace {

using testing::ElementsAre;
using Owners = std::vector<uint32_t>;
using Sizes = std::vector<uint64_t>;

Owners Spread(Owners owners, const Sizes& bytes, const ServerWeights& weights) {
  return SpreadShards(std::move(owners), bytes, weights);
}
// Shards and servers are alike.
Owners SpreadAlike(Owners owners, const std::vector<uint32_t>& servers) {
  ServerWeights weights;
  for (const uint32_t server : servers) weights[server] = 1;
  const Sizes bytes(owners.size(), 1000);
  return Spread(std::move(owners), bytes, weights);
}

TEST(SpreadShards, IsEvenAndMovesNoMoreThanThatTakes) {
  EXPECT_THAT(SpreadAlike({1, 1, 1, 1, 1}, {1, 2}), ElementsAre(1, 1, 1, 2, 2));
  EXPECT_THAT(SpreadAlike({1, 1, 1, 2, 2}, {1, 2, 3}), ElementsAre(1, 1, 3, 2, 2));
  EXPECT_THAT(SpreadAlike({1, 2, 1, 2}, {1, 2}), ElementsAre(1, 2, 1, 2));
}

TEST(SpreadShards, WhatAServerHeldThatLeavesGoesToTheOthers) {
  EXPECT_THAT(SpreadAlike({1, 2, 3, 2, 3}, {1, 3}), ElementsAre(1, 1, 3, 1, 3));
  EXPECT_THAT(SpreadAlike({2, 2, 2}, {1}), ElementsAre(1, 1, 1));
}

TEST(SpreadShards, MoreServersThanShards) {
  EXPECT_THAT(SpreadAlike({1, 1}, {1, 2, 3}), ElementsAre(1, 2));
}

TEST(SpreadShards, IsEvenFromWherever) {
  for (uint32_t shards = 1; shards < 20; ++shards) {
    for (uint32_t servers = 1; servers < 6; ++servers) {
      Owners owners;
      for (uint32_t s = 0; s < shards; ++s) owners.push_back(1 + s * s % 7);
      std::vector<uint32_t> among;
      for (uint32_t s = 1; s <= servers; ++s) among.push_back(s);
      const Owners spread = SpreadAlike(owners, among);
      for (const uint32_t server : among) {
        const auto held = std::count(spread.begin(), spread.end(), server);
        EXPECT_GE(held, shards / servers);
        EXPECT_LE(held, (shards + servers - 1) / servers);
      }
      EXPECT_EQ(SpreadAlike(spread, among), spread);
    }
  }
}

TEST(SpreadShards, CountsBytesAndNotShards) {
  const Sizes one_is_large = {18'900, 256, 40, 0};
  EXPECT_THAT(Spread({1, 1, 1, 1}, one_is_large, {{1, 1}, {2, 1}}), ElementsAre(1, 2, 2, 2));
  EXPECT_THAT(Spread({1, 1, 2, 2}, {8, 4, 4, 8}, {{1, 1}, {2, 1}}), ElementsAre(1, 1, 2, 2));
  // The one that fits moves, not the last.
  EXPECT_THAT(Spread({1, 1, 1, 1, 2}, {10, 30, 20, 10, 30}, {{1, 1}, {2, 1}}),
              ElementsAre(1, 1, 2, 1, 2));
  // A shard stays where its move would help little.
  EXPECT_THAT(Spread({1, 1, 2, 2, 3}, {10, 10, 10, 10, 9}, {{1, 1}, {2, 1}, {3, 1}}),
              ElementsAre(1, 1, 2, 2, 3));
}

TEST(SpreadShards, ServersHoldAsTheirWeights) {
  const Owners on_one(16, 1);
  const Owners spread = Spread(on_one, Sizes(16, 100), {{1, 4}, {2, 2}, {3, 2}, {4, 0}});
  EXPECT_EQ(std::ranges::count(spread, 1u), 8);
  EXPECT_EQ(std::ranges::count(spread, 2u), 4);
  EXPECT_EQ(std::ranges::count(spread, 3u), 4);
  // No server is left without a shard if there is one for each.
  EXPECT_THAT(Spread({1, 1, 1}, Sizes(3, 100), {{1, 2}, {2, 1}, {3, 1}}), ElementsAre(1, 3, 2));
  EXPECT_THAT(Spread({4, 4}, {5, 5}, {{1, 1}, {4, 0}}), ElementsAre(1, 1));
}

TEST(SpreadShards, IsWithinAShardOfTheWeights) {
  for (uint64_t seed = 1; seed < 200; ++seed) {
    Sizes bytes;
    Owners owners;
    for (uint64_t s = 0; s < 24; ++s) {
      bytes.push_back(1'000 + seed * seed * (s + 3) % 1'000);
      owners.push_back(1);
    }
    const ServerWeights weights = {{1, 1.0 + static_cast<double>(seed % 4)}, {2, 1}, {5, 2}};
    const Owners spread = Spread(owners, bytes, weights);
    EXPECT_EQ(Spread(spread, bytes, weights), spread);
    double total = 0, sum = 0;
    for (const uint64_t size : bytes) total += static_cast<double>(size);
    for (const auto& [server, weight] : weights) sum += weight;
    for (const auto& [server, weight] : weights) {
      double held = 0;
      for (size_t s = 0; s < bytes.size(); ++s) {
        if (spread[s] == server) held += static_cast<double>(bytes[s]);
      }
      EXPECT_NEAR(held, total * weight / sum, 4'000) << seed;
    }
  }
}

constexpr ServerPlace kOwn{}, kBeside{.beside_worker = true};

// The seconds that a server's link is busy in a step whose model has one byte.
double Busy(const ServerPlace& place, double share, double workers) {
  const double sent = place.beside_worker ? 1 + (workers - 2) * share : workers * share;
  return sent / place.link;
}

MATCHER_P(Share, share, "") { return std::abs(arg.second - share) < 1e-5; }

TEST(WeighServers, ServersOfTheirOwnAreAlike) {
  EXPECT_THAT(WeighServers({{1, kOwn}, {2, kOwn}}, 8), ElementsAre(Share(0.5), Share(0.5)));
  EXPECT_THAT(WeighServers({{1, kBeside}, {2, kBeside}}, 2), ElementsAre(Share(0.5), Share(0.5)));
}

TEST(WeighServers, AFasterLinkHoldsMore) {
  EXPECT_THAT(WeighServers({{1, {false, 3e9}}, {2, {false, 1e9}}}, 8),
              ElementsAre(Share(0.75), Share(0.25)));
  // One that is not known counts as the slowest.
  EXPECT_THAT(WeighServers({{1, {false, 3e9}}, {2, kOwn}}, 8), ElementsAre(Share(0.5), Share(0.5)));
  EXPECT_THAT(WeighServers({{1, {false, 3e9}}, {2, kOwn}, {3, {false, 1e9}}}, 8),
              ElementsAre(Share(0.6), Share(0.2), Share(0.2)));
  // The slow link carries its worker's traffic, and no server's besides.
  EXPECT_THAT(WeighServers({{1, {true, 8e9}}, {2, {true, 8e9}}, {3, {true, 1e9}}}, 3),
              ElementsAre(Share(0.5), Share(0.5), Share(0)));
}

// Whatever they hold, the slower link is busy for as long.
TEST(WeighServers, BesideTwoWorkersHoldAsMuchOverAnyLinks) {
  for (const double link : {1e9, 1.001e9, 1e12}) {
    EXPECT_THAT(WeighServers({{1, {true, 1e9}}, {2, {true, link}}}, 2),
                ElementsAre(Share(0.5), Share(0.5)))
        << link;
    EXPECT_THAT(WeighServers({{1, {false, 1e9}}, {2, {true, link}}, {3, {true, 1e9}}}, 2),
                ElementsAre(Share(0.5), Share(0.25), Share(0.25)))
        << link;
  }
}

TEST(WeighServers, NoShareElsewhereEndsEarlier) {
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    const auto own = static_cast<uint32_t>(random() % 4);
    const auto beside = static_cast<uint32_t>(1 + random() % 8);
    std::map<uint32_t, ServerPlace> places;
    for (uint32_t server = 1; server <= own + beside; ++server)
      places[server] = {.beside_worker = server > own,
                        .link = 1e8 * static_cast<double>(1 + random() % 100)};
    const auto workers = static_cast<double>(std::max(2u, beside) + random() % 3);
    const ServerWeights shares = WeighServers(places, static_cast<uint64_t>(workers));
    // No spread ends before the slowest worker has sent everything.
    double sum = 0, end = 0, least = 0;
    for (const auto& [server, place] : places) {
      sum += shares.at(server);
      end = std::max(end, Busy(place, shares.at(server), workers));
      if (place.beside_worker) least = std::max(least, 1 / place.link);
    }
    EXPECT_NEAR(sum, 1, 1e-4);
    if (end <= least * (1 + 1e-4)) continue;
    // Otherwise every link is busy until the end.
    for (const auto& [server, place] : places)
      EXPECT_GE(Busy(place, shares.at(server), workers), end * (1 - 1e-3)) << i << " " << server;
  }
}

TEST(WeighServers, EveryEqualLinkIsAsBusy) {
  for (uint32_t n = 2; n < 12; ++n) {
    for (uint32_t m = 1; m <= n; ++m) {
      for (uint32_t k = 1; k < n; ++k) {
        std::map<uint32_t, ServerPlace> places;
        for (uint32_t server = 1; server <= k + m; ++server)
          places[server] = {.beside_worker = server > k, .link = 1};
        const ServerWeights shares = WeighServers(places, n);
        EXPECT_NEAR(Busy(places[1], shares.at(1), n), Busy(places[k + m], shares.at(k + m), n),
                    1e-5)
            << n << " " << m << " " << k;
      }
    }
  }
}

TEST(WeighServers, AtTheEnds) {
  // Enough servers of their own take the weights of all links.
  EXPECT_THAT(WeighServers({{1, kOwn}, {2, kOwn}, {3, kBeside}}, 2),
              ElementsAre(Share(0.5), Share(0.5), Share(0)));
  // One worker's weights need no link.
  EXPECT_THAT(WeighServers({{1, kOwn}, {2, kBeside}}, 1), ElementsAre(Share(0), Share(1)));
  // More servers are beside workers than the run asks workers for.
  EXPECT_THAT(WeighServers({{1, kOwn}, {2, kBeside}, {3, kBeside}}, 1),
              ElementsAre(Share(0.5), Share(0.25), Share(0.25)));
}

}  // namespace
}  // namespace psgd
