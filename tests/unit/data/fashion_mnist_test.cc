// Tests the real dataset, if it is installed.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "data/batch.h"
#include "data/open_data.h"

namespace psgd {
namespace {

constexpr const char* kFolder = "/usr/share/datasets/fashion-mnist";

class FashionMnistTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kFolder)) {
      GTEST_SKIP() << kFolder << " is not there: apt-get install dataset-fashion-mnist";
    }
    config_.set_path(kFolder);
  }
  DataConfig config_;
};

TEST_F(FashionMnistTest, OpensWithTheKnownStatistics) {
  const absl::StatusOr<DataSets> sets = OpenData(config_, 1);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train->size(), 60000u);
  EXPECT_EQ(sets->test->size(), 10000u);
  EXPECT_EQ(sets->shape.ImageText(), "1x28x28");
  EXPECT_EQ(sets->shape.classes, 10);
  EXPECT_NEAR(sets->normalization.mean[0], 0.2860f, 1e-4f);
  EXPECT_NEAR(sets->normalization.stddev[0], 0.3530f, 1e-4f);
}

TEST_F(FashionMnistTest, LabelsAreBalanced) {
  const absl::StatusOr<DataSets> sets = OpenData(config_, 1);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EvaluationBatches batches(sets->test, 300);
  EXPECT_EQ(batches.size(), 34u);
  std::vector<int> counts(11);
  for (uint32_t i = 0; i < batches.size(); ++i) {
    const absl::StatusOr<Batch> batch = batches.Read(i);
    ASSERT_TRUE(batch.ok()) << batch.status();
    for (const int32_t label : batch->labels) ++counts.at(label + 1);
  }
  EXPECT_EQ(counts[0], 200);  // padding
  for (int label = 0; label < 10; ++label) EXPECT_EQ(counts[label + 1], 1000);
}

TEST_F(FashionMnistTest, AnEpochIsCheapToRead) {
  config_.mutable_augment()->set_crop_padding(4);
  config_.mutable_augment()->set_flip(true);
  const absl::StatusOr<DataSets> sets = OpenData(config_, 1);
  ASSERT_TRUE(sets.ok()) << sets.status();
  BatchMaker maker(sets->train, 64, 1);
  std::vector<uint32_t> indices(64);
  const auto start = std::chrono::steady_clock::now();
  for (uint32_t first = 0; first + 64 <= 60000; first += 64) {
    for (uint32_t i = 0; i < 64; ++i) indices[i] = first + i;
    ASSERT_TRUE(maker.Make(0, indices).ok());
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  RecordProperty("epoch_seconds", std::to_string(seconds.count()));
  std::cout << "an epoch of 60,000 augmented images: " << seconds.count() << " s on one core\n";
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(seconds.count(), 1.0);
#endif
}

}  // namespace
}  // namespace psgd
