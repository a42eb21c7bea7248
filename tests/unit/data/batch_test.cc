#include "data/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/data/counting_source.h"

namespace psgd {
namespace {

using testing::Each;
using testing::ElementsAre;

bool Aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 64 == 0; }

TEST(BatchMakerTest, FillsAndPads) {
  BatchMaker maker(Source(std::make_shared<CountingDataset>(10)), 4, 1);
  const std::vector<uint32_t> indices{7, 2, 9};
  const absl::StatusOr<Batch> batch = maker.Make(0, indices);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_TRUE(Aligned(batch->pixels.data()));
  EXPECT_TRUE(Aligned(batch->labels.data()));
  EXPECT_THAT(batch->labels, ElementsAre(7, 2, 9, -1));
  ASSERT_EQ(batch->pixels.size(), 24u);
  EXPECT_THAT(batch->pixels.subspan(0, 6), Each(8.0f));
  EXPECT_THAT(batch->pixels.subspan(12, 6), Each(10.0f));
  EXPECT_THAT(batch->pixels.subspan(18, 6), Each(0.0f));
}

// Sample i has targets i and -i.
class TargetDataset final : public Dataset {
 public:
  size_t size() const override { return 10; }
  SampleShape shape() const override {
    SampleShape shape{1, 1, 3, 2};
    shape.targets = 2;
    return shape;
  }
  absl::Status Read(const SampleKey& key, const Sample& sample) const override {
    std::ranges::fill(sample.values, 1.0f);
    sample.labels[0] = 0;
    sample.targets[0] = static_cast<float>(key.index);
    sample.targets[1] = -sample.targets[0];
    return absl::OkStatus();
  }
};

TEST(BatchMakerTest, TargetsComeBesideLabelsAndPaddingHasNone) {
  BatchMaker maker(Source(std::make_shared<TargetDataset>()), 3, 1);
  const absl::StatusOr<Batch> batch = maker.Make(0, std::vector<uint32_t>{7, 2});
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_TRUE(Aligned(batch->targets.data()));
  EXPECT_THAT(batch->targets, ElementsAre(7, -7, 2, -2, 0, 0));
  EXPECT_THAT(batch->labels, ElementsAre(0, 0, -1));
}

TEST(BatchMakerTest, BuffersAreReusedAndOutliveTheMaker) {
  Batch kept;
  {
    BatchMaker maker(Source(std::make_shared<CountingDataset>(10)), 1, 2);
    const std::vector<uint32_t> three{3}, five{5};
    const float* first = maker.Make(0, three)->pixels.data();
    kept = *maker.Make(0, five);
    EXPECT_EQ(kept.pixels.data(), first);
    EXPECT_NE(maker.Make(0, three)->pixels.data(), first);
  }
  EXPECT_THAT(kept.pixels, Each(6.0f));
}

class HugeDataset final : public Dataset {
 public:
  size_t size() const override { return 1; }
  SampleShape shape() const override { return {1 << 20, 1 << 20, 1, 2}; }
  absl::Status Read(const SampleKey&, const Sample&) const override { return absl::OkStatus(); }
};

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(BatchMakerTest, OutOfMemoryIsAnError) {
  BatchMaker maker(Source(std::make_shared<HugeDataset>()), 1 << 18, 1);
  const absl::Status status = maker.Make(0, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("data.batch"));
}
#endif

TEST(EvaluationBatchesTest, EverySampleOnceInOrder) {
  for (const int batch_size : {1, 4, 5, 10, 64}) {
    EvaluationBatches batches(Source(std::make_shared<CountingDataset>(10)), batch_size);
    int32_t expected = 0;
    for (uint32_t i = 0; i < batches.size(); ++i) {
      const absl::StatusOr<Batch> batch = batches.Read(i);
      ASSERT_TRUE(batch.ok());
      ASSERT_EQ(batch->labels.size(), static_cast<size_t>(batch_size));
      for (const int32_t label : batch->labels) {
        EXPECT_EQ(label, expected < 10 ? expected : -1);
        ++expected;
      }
    }
    EXPECT_GE(expected, 10);
    EXPECT_LT(expected, 10 + batch_size);
  }
}

}  // namespace
}  // namespace psgd
