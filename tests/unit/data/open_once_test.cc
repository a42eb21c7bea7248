#include "data/open_once.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace psgd {
namespace {

DataConfig SmallSynthetic(int samples) {
  DataConfig config;
  config.set_format(DataConfig::SYNTHETIC);
  config.set_batch(2);
  config.mutable_synthetic()->set_train_samples(samples);
  config.mutable_synthetic()->set_test_samples(4);
  return config;
}

class OpenOnceTest : public ::testing::Test {
 protected:
  std::atomic<int> opened_ = 0;
  absl::Status fail_;
  DataOpener open_ = OpenOnce([this](const DataConfig& config, uint64_t seed) {
    ++opened_;
    return fail_.ok() ? OpenData(config, seed) : fail_;
  });
};

TEST_F(OpenOnceTest, WhoAsksAtTheSameTimeGetsTheSameSamples) {
  std::vector<std::shared_ptr<const SampleSource>> train(8), test(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < train.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto sets = open_(SmallSynthetic(8), 1);
      ASSERT_TRUE(sets.ok()) << sets.status();
      train[i] = sets->train;
      test[i] = sets->test;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(opened_, 1);
  for (size_t i = 0; i < train.size(); ++i) {
    EXPECT_EQ(train[i], train[0]);
    EXPECT_EQ(test[i], test[0]);
  }
  EXPECT_EQ(train[0]->size(), 8u);
}

TEST_F(OpenOnceTest, OtherSettingsAreOtherSamples) {
  const auto first = open_(SmallSynthetic(8), 1), seed = open_(SmallSynthetic(8), 2);
  const auto more = open_(SmallSynthetic(10), 1);
  ASSERT_TRUE(first.ok() && seed.ok() && more.ok());
  EXPECT_EQ(opened_, 3);
  EXPECT_NE(first->train, seed->train);
  EXPECT_EQ(more->train->size(), 10u);
  EXPECT_EQ(open_(SmallSynthetic(8), 1)->train, first->train);
  EXPECT_EQ(opened_, 3);
}

TEST_F(OpenOnceTest, WhatCouldNotBeOpenedIsTriedAgain) {
  fail_ = absl::NotFoundError("not there yet");
  EXPECT_EQ(open_(SmallSynthetic(8), 1).status(), fail_);
  fail_ = absl::OkStatus();
  EXPECT_TRUE(open_(SmallSynthetic(8), 1).ok());
  EXPECT_EQ(opened_, 2);
}

TEST_F(OpenOnceTest, EachCountsTheDamageThatItMeets) {
  DataConfig config = SmallSynthetic(8);
  config.mutable_images()->set_skip_damaged(true);
  EXPECT_TRUE(open_(config, 1).ok());
  EXPECT_TRUE(open_(config, 1).ok());
  EXPECT_EQ(opened_, 2);
}

}  // namespace
}  // namespace psgd
