#include "data/synthetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace psgd {
namespace {

std::shared_ptr<const Dataset> Make(float noise, bool test, uint64_t seed = 1) {
  SyntheticOptions options;
  options.shape = {2, 9, 7, 5};
  options.samples = 500;
  options.noise = noise;
  options.seed = seed;
  options.test = test;
  return *SyntheticDataset::Create(options);
}

std::vector<float> ReadOne(const Dataset& set, size_t index, int32_t* label) {
  std::vector<float> pixels(set.shape().elements());
  EXPECT_TRUE(set.Read({0, index}, {.values = pixels, .labels = {label, 1}}).ok());
  return pixels;
}

// Returns the share of test samples for which the nearest mean of a training class is their own.
double NearestMeanAccuracy(float noise) {
  const auto train = Make(noise, false), test = Make(noise, true);
  const size_t elements = train->shape().elements();
  std::vector<std::vector<double>> means(5, std::vector<double>(elements));
  int32_t label;
  for (size_t i = 0; i < train->size(); ++i) {
    const std::vector<float> x = ReadOne(*train, i, &label);
    for (size_t j = 0; j < elements; ++j) means[label][j] += x[j] / 100.0;
  }
  int right = 0;
  for (size_t i = 0; i < test->size(); ++i) {
    const std::vector<float> x = ReadOne(*test, i, &label);
    int best = -1;
    double smallest = std::numeric_limits<double>::max();
    for (int c = 0; c < 5; ++c) {
      double distance = 0;
      for (size_t j = 0; j < elements; ++j) distance += std::pow(x[j] - means[c][j], 2);
      if (distance < smallest) {
        smallest = distance;
        best = c;
      }
    }
    right += best == label;
  }
  return right / 500.0;
}

TEST(SyntheticTest, LearnableAndHarderWithNoise) {
  EXPECT_GT(NearestMeanAccuracy(1.0f), 0.98);
  EXPECT_LT(NearestMeanAccuracy(4.0f), 0.8);
  EXPECT_GT(NearestMeanAccuracy(4.0f), 0.3);
}

TEST(SyntheticTest, ValuesAreInRangeAndLabelsBalanced) {
  for (const float noise : {0.0f, 1.0f, 100.0f}) {
    const auto set = Make(noise, false);
    std::vector<int> counts(5);
    int32_t label;
    for (size_t i = 0; i < set->size(); ++i) {
      for (const float x : ReadOne(*set, i, &label)) {
        ASSERT_GE(x, 0.0f);
        ASSERT_LE(x, 1.0f);
      }
      ++counts.at(label);
    }
    EXPECT_EQ(counts, std::vector<int>(5, 100));
  }
}

TEST(SyntheticTest, NoiseIsNearNormal) {
  const auto noisy = Make(1.0f, false), bare = Make(0.0f, false);
  // Both have the same patterns up to a linear map, so the difference in scale cancels.
  const double pattern_scale = 1.0 + 510.0 / 147.8016;
  double sum = 0, squares = 0;
  int count = 0;
  int32_t label;
  for (size_t i = 0; i < 500; ++i) {
    const std::vector<float> x = ReadOne(*noisy, i, &label), c = ReadOne(*bare, i, &label);
    for (size_t j = 0; j < x.size(); ++j, ++count) {
      const double g = ((x[j] - 0.5) * pattern_scale - (c[j] - 0.5)) * 2;
      sum += g;
      squares += g * g;
    }
  }
  EXPECT_NEAR(sum / count, 0.0, 0.02);
  EXPECT_NEAR(squares / count, 1.0, 0.02);
}

TEST(SyntheticTest, SeedDecidesAndTestDiffers) {
  int32_t a, b;
  EXPECT_EQ(ReadOne(*Make(1, false), 3, &a), ReadOne(*Make(1, false), 3, &b));
  EXPECT_NE(ReadOne(*Make(1, false), 3, &a), ReadOne(*Make(1, false, 2), 3, &b));
  EXPECT_NE(ReadOne(*Make(1, false), 3, &a), ReadOne(*Make(1, true), 3, &b));
  EXPECT_EQ(a, b);
  EXPECT_EQ(ReadOne(*Make(0, false), 3, &a), ReadOne(*Make(0, true), 3, &b));
}

TEST(SyntheticTest, TinyShapesWork) {
  SyntheticOptions options;
  options.shape = {1, 1, 1, 2};
  options.samples = 3;
  const auto set = *SyntheticDataset::Create(options);
  int32_t label;
  EXPECT_EQ(ReadOne(*set, 1, &label).size(), 1u);
  EXPECT_EQ(label, 1);
}

}  // namespace
}  // namespace psgd
