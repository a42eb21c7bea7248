#include "data/epoch_order.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

namespace psgd {
namespace {

TEST(EpochOrderTest, EachSampleOnceAndTheRestDropped) {
  EpochOrder order(103, 10, 1);
  ASSERT_EQ(order.batches_per_epoch(), 10u);
  std::set<uint32_t> seen;
  for (uint32_t i = 0; i < 10; ++i) {
    const std::vector<uint32_t> batch = order.Batch(4, i);
    EXPECT_EQ(batch.size(), 10u);
    seen.insert(batch.begin(), batch.end());
  }
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_LT(*seen.rbegin(), 103u);
}

TEST(EpochOrderTest, ReshuffledEachEpochAndBySeed) {
  EpochOrder order(1000, 100, 1), same(1000, 100, 1), other(1000, 100, 2);
  EXPECT_EQ(order.Batch(0, 3), same.Batch(0, 3));
  EXPECT_NE(order.Batch(0, 3), order.Batch(1, 3));
  EXPECT_NE(order.Batch(0, 3), other.Batch(0, 3));
}

TEST(EpochOrderTest, AnyEpochInAnyOrder) {
  EpochOrder forward(500, 7, 9);
  std::vector<std::vector<uint32_t>> expected;
  for (uint32_t epoch = 0; epoch < 5; ++epoch) expected.push_back(forward.Batch(epoch, 11));
  EpochOrder jumping(500, 7, 9);
  for (const uint32_t epoch : {4, 0, 1, 0, 1, 2, 1, 4, 3, 3, 0}) {
    EXPECT_EQ(jumping.Batch(epoch, 11), expected[epoch]) << epoch;
  }
}

TEST(EpochOrderTest, PositionsAreUniform) {
  // Counts the places of sample 0 over many epochs.
  std::vector<int> counts(10);
  EpochOrder order(10, 1, 3);
  for (uint32_t epoch = 0; epoch < 2000; ++epoch) {
    for (uint32_t i = 0; i < 10; ++i) counts[i] += order.Batch(epoch, i)[0] == 0;
  }
  for (const int count : counts) EXPECT_NEAR(count, 200, 60);
}

TEST(EpochOrderTest, SmallSets) {
  EXPECT_EQ(EpochOrder(0, 4, 1).batches_per_epoch(), 0u);
  EXPECT_EQ(EpochOrder(3, 4, 1).batches_per_epoch(), 0u);
  EpochOrder one(1, 1, 1);
  EXPECT_EQ(one.Batch(0, 0), std::vector<uint32_t>{0});
}

// Batches i * n + r go to rank r of n: the shares are uneven, yet every batch comes exactly once.
TEST(EpochOrderTest, SharesOfUnevenSizeCoverTheEpoch) {
  for (const uint32_t ranks : {1u, 2u, 3u, 7u, 16u}) {
    std::multiset<uint32_t> seen;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      EpochOrder own(103, 10, 5);  // each worker computes the order by itself
      for (uint32_t i = 0; i * ranks + rank < own.batches_per_epoch(); ++i) {
        const std::vector<uint32_t> batch = own.Batch(2, i * ranks + rank);
        seen.insert(batch.begin(), batch.end());
      }
    }
    EXPECT_EQ(seen.size(), 100u) << ranks;
    EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 100u) << ranks;
  }
}

TEST(EpochOrderTest, ThreadsAcrossEpochs) {
  EpochOrder order(2000, 50, 1);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < 200; ++i) {
        const uint32_t epoch = (i + t) / 20;
        EpochOrder alone(2000, 50, 1);
        if (i % 20 == 0) {
          EXPECT_EQ(order.Batch(epoch, i % 40), alone.Batch(epoch, i % 40));
        }
        EXPECT_EQ(order.Batch(epoch, i % 40).size(), 50u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace psgd
