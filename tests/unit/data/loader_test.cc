#include "data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "data/open_data.h"
#include "tests/unit/data/counting_source.h"

namespace psgd {
namespace {

using std::chrono::microseconds;

std::vector<uint32_t> Labels(const Batch& batch) {
  return {batch.labels.begin(), batch.labels.end()};
}

TEST(BatchLoaderTest, AnswersInTheOrderOfRequests) {
  for (const int threads : {1, 2, 5}) {
    for (const int prefetch : {1, 3, 8}) {
      const auto dataset = std::make_shared<CountingDataset>(103, microseconds(20));
      BatchLoader loader(Source(dataset), {10, prefetch, threads, 7});
      EpochOrder order(103, 10, 7);
      for (uint32_t epoch = 0; epoch < 3; ++epoch) {
        for (uint32_t i = 10; i-- > 0;) loader.Enqueue(epoch, i);
      }
      for (uint32_t epoch = 0; epoch < 3; ++epoch) {
        for (uint32_t i = 10; i-- > 0;) {
          const absl::StatusOr<Batch> batch = loader.Next();
          ASSERT_TRUE(batch.ok()) << batch.status();
          const std::vector<uint32_t> expected = order.Batch(epoch, i);
          ASSERT_EQ(Labels(*batch), expected) << threads << " " << prefetch;
          EXPECT_EQ(batch->pixels[7], static_cast<float>(expected[1] + 1));
        }
      }
    }
  }
}

TEST(BatchLoaderTest, PrefetchIsBounded) {
  const auto dataset = std::make_shared<CountingDataset>(1000);
  BatchLoader loader(Source(dataset), {10, 3, 2, 1});
  for (uint32_t i = 0; i < 50; ++i) loader.Enqueue(0, i);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (dataset->reads() < 30 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(dataset->reads(), 30u);
  ASSERT_TRUE(loader.Next().ok());
  while (dataset->reads() < 40 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(dataset->reads(), 40u);
}

TEST(BatchLoaderTest, WhatIsReadyIsHadWithoutAWait) {
  BatchLoader loader(Source(std::make_shared<CountingDataset>(30)), {10, 2, 1, 1});
  EXPECT_FALSE(loader.NextIfReady().has_value());
  loader.Enqueue(0, 2);
  loader.Enqueue(0, 0);
  EpochOrder order(30, 10, 1);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  auto first = loader.NextIfReady();
  while (!first && std::chrono::steady_clock::now() < deadline) first = loader.NextIfReady();
  ASSERT_TRUE(first.has_value() && first->ok());
  EXPECT_EQ(Labels(**first), order.Batch(0, 2));
  EXPECT_EQ(Labels(*loader.Next()), order.Batch(0, 0));
  EXPECT_FALSE(loader.NextIfReady().has_value());
  loader.Enqueue(0, 1);
  loader.Cancel();
  EXPECT_FALSE(loader.NextIfReady().has_value());
}

TEST(BatchLoaderTest, NoRequestIsAnErrorAndNotAWait) {
  BatchLoader loader(Source(std::make_shared<CountingDataset>(20)), {10, 2, 1, 1});
  EXPECT_EQ(loader.Next().status().code(), absl::StatusCode::kFailedPrecondition);
  loader.Enqueue(0, 1);
  EXPECT_TRUE(loader.Next().ok());
  EXPECT_FALSE(loader.Next().ok());
}

TEST(BatchLoaderTest, RequestBeyondTheEpochIsAnErrorInItsPlace) {
  BatchLoader loader(Source(std::make_shared<CountingDataset>(25)), {10, 2, 2, 1});
  loader.Enqueue(0, 1);
  loader.Enqueue(0, 2);
  loader.Enqueue(0, 4000000000u);
  loader.Enqueue(0, 0);
  EXPECT_TRUE(loader.Next().ok());
  const absl::Status status = loader.Next().status();
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("an epoch has 2 batches of 10"));
  EXPECT_FALSE(loader.Next().ok());
  EXPECT_TRUE(loader.Next().ok());
}

TEST(BatchLoaderTest, EarlyDestructionNeverHangs) {
  for (int trial = 0; trial < 60; ++trial) {
    const auto dataset = std::make_shared<CountingDataset>(200, microseconds(trial % 3 * 10));
    BatchLoader loader(Source(dataset), {10, 1 + trial % 4, 1 + trial % 3, 1});
    for (uint32_t i = 0; i < 20; ++i) loader.Enqueue(0, i);
    for (int taken = 0; taken < trial % 5; ++taken) ASSERT_TRUE(loader.Next().ok());
  }
}

TEST(BatchLoaderTest, CancelWakesTheWaitingTrainer) {
  const auto dataset = std::make_shared<CountingDataset>(20, std::chrono::milliseconds(20));
  BatchLoader loader(Source(dataset), {10, 2, 1, 1});
  loader.Enqueue(0, 0);
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    loader.Cancel();
  });
  EXPECT_EQ(loader.Next().status().code(), absl::StatusCode::kCancelled);
  canceller.join();
  loader.Enqueue(0, 1);
  EXPECT_EQ(loader.Next().status().code(), absl::StatusCode::kCancelled);
}

TEST(BatchLoaderTest, BatchesOutliveTheLoader) {
  Batch batch;
  {
    BatchLoader loader(Source(std::make_shared<CountingDataset>(20)), {10, 2, 1, 1});
    loader.Enqueue(0, 0);
    batch = *loader.Next();
  }
  EXPECT_EQ(batch.pixels[0], static_cast<float>(batch.labels[0] + 1));
}

// A batch has the same bytes with any worker and any number of threads.
TEST(BatchLoaderTest, AugmentedBatchesAreTheSameEverywhere) {
  DataConfig config;
  config.set_format(DataConfig::SYNTHETIC);
  config.mutable_synthetic()->set_train_samples(256);
  config.mutable_augment()->set_crop_padding(4);
  config.mutable_augment()->set_flip(true);
  const auto load = [&](int threads) {
    const absl::StatusOr<DataSets> sets = OpenData(config, 3);
    BatchLoader loader(sets->train, {16, 4, threads, 3});
    for (uint32_t i = 0; i < 32; ++i) loader.Enqueue(i / 16, i % 16);
    std::vector<std::vector<float>> batches;
    for (uint32_t i = 0; i < 32; ++i) {
      const absl::StatusOr<Batch> batch = loader.Next();
      batches.emplace_back(batch->pixels.begin(), batch->pixels.end());
    }
    return batches;
  };
  EXPECT_EQ(load(1), load(4));
}

}  // namespace
}  // namespace psgd
