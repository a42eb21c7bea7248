#include "common/bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace psgd {
namespace {

TEST(BoundedQueue, GivesInOrderAndSaysWhenItIsFull) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.TryPush(1));
  EXPECT_TRUE(queue.TryPush(2));
  EXPECT_FALSE(queue.TryPush(3));
  EXPECT_EQ(*queue.Pop(), 1);
  EXPECT_TRUE(queue.TryPush(3));
  EXPECT_EQ(*queue.Pop(), 2);
  EXPECT_EQ(*queue.Pop(), 3);
}

TEST(BoundedQueue, PopForGivesUp) {
  BoundedQueue<int> queue(4);
  const Time start = SteadyNow();
  EXPECT_FALSE(queue.PopFor(Milliseconds(20)).has_value());
  EXPECT_GE(SteadyNow() - start, Milliseconds(20));
}

TEST(BoundedQueue, ClosingWakesWhoWaitsAndLeavesWhatIsQueued) {
  BoundedQueue<std::unique_ptr<int>> full(2), empty(1);
  ASSERT_TRUE(full.TryPush(std::make_unique<int>(7)));
  std::thread consumer([&] { EXPECT_FALSE(empty.Pop().has_value()); });
  full.Close();
  empty.Close();
  consumer.join();
  EXPECT_FALSE(full.TryPush(nullptr));
  EXPECT_EQ(**full.Pop(), 7);
  EXPECT_FALSE(full.Pop().has_value());
}

TEST(BoundedQueue, NothingIsLostOrDoubledBetweenThreads) {
  constexpr int kProducers = 3, kConsumers = 3, kItems = 2000;
  BoundedQueue<int> queue(7);
  std::vector<std::atomic<int>> seen(kProducers * kItems);
  std::vector<std::thread> producers, consumers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (int i = 0; i < kItems; ++i) {
        while (!queue.TryPush(p * kItems + i)) std::this_thread::yield();
      }
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
}

}  // namespace
}  // namespace psgd
