#include "common/bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

namespace psgd {
namespace {

TEST(BoundedQueue, FirstInFirstOut) {
  BoundedQueue<int> queue(10);
  EXPECT_TRUE(queue.Push(1));
  EXPECT_TRUE(queue.Push(2, 3));
  EXPECT_EQ(queue.weight(), 4u);
  EXPECT_EQ(*queue.Pop(), 1);
  EXPECT_EQ(*queue.Pop(), 2);
  EXPECT_EQ(queue.weight(), 0u);
}

TEST(BoundedQueue, AFullQueueSaysSo) {
  BoundedQueue<int> queue(4);
  EXPECT_TRUE(queue.TryPush(1, 3));
  EXPECT_FALSE(queue.TryPush(2, 2));
  EXPECT_TRUE(queue.TryPush(3, 1));
  (void)queue.Pop();
  EXPECT_TRUE(queue.TryPush(2, 2));
}

TEST(BoundedQueue, WhatIsHeavierThanTheQueueGoesInAlone) {
  BoundedQueue<int> queue(4);
  EXPECT_TRUE(queue.TryPush(1, 100));
  EXPECT_FALSE(queue.TryPush(2, 1));
  EXPECT_EQ(*queue.Pop(), 1);
  EXPECT_TRUE(queue.TryPush(2, 1));
}

TEST(BoundedQueue, PopForGivesUp) {
  BoundedQueue<int> queue(4);
  const Time start = SteadyNow();
  EXPECT_FALSE(queue.PopFor(Milliseconds(20)).has_value());
  EXPECT_GE(SteadyNow() - start, Milliseconds(20));
}

TEST(BoundedQueue, ClosingWakesWhoWaitsAndLeavesWhatIsQueued) {
  BoundedQueue<int> full(1), empty(1);
  ASSERT_TRUE(full.Push(1));
  std::atomic<int> woken{0};
  std::thread producer([&] {
    EXPECT_FALSE(full.Push(2));
    ++woken;
  });
  std::thread consumer([&] {
    EXPECT_FALSE(empty.Pop().has_value());
    ++woken;
  });
  full.Close();
  empty.Close();
  producer.join();
  consumer.join();
  EXPECT_EQ(woken, 2);
  EXPECT_FALSE(full.Push(3));
  EXPECT_FALSE(full.TryPush(3));
  EXPECT_EQ(*full.Pop(), 1);
  EXPECT_FALSE(full.Pop().has_value());
}

TEST(BoundedQueue, TakesWhatCanOnlyBeMoved) {
  BoundedQueue<std::unique_ptr<int>> queue(4);
  ASSERT_TRUE(queue.Push(std::make_unique<int>(7)));
  EXPECT_EQ(**queue.Pop(), 7);
}

TEST(BoundedQueue, NothingIsLostOrDoubledBetweenThreads) {
  constexpr int kProducers = 3, kConsumers = 3, kItems = 2000;
  BoundedQueue<int> queue(7);
  std::vector<std::atomic<int>> seen(kProducers * kItems);
  std::vector<std::thread> producers, consumers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (int i = 0; i < kItems; ++i) ASSERT_TRUE(queue.Push(p * kItems + i, 1 + i % 5));
    });
  }
  for (int c = 0; c < kConsumers; ++c) {
    consumers.emplace_back([&] {
      while (auto item = queue.Pop()) ++seen[*item];
    });
  }
  for (auto& thread : producers) thread.join();
  queue.Close();
  for (auto& thread : consumers) thread.join();
  for (size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], 1) << i;
  EXPECT_EQ(queue.weight(), 0u);
}

}  // namespace
}  // namespace psgd
