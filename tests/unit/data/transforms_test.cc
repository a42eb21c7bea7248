#include "data/transforms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "data/synthetic.h"

namespace psgd {
namespace {

constexpr SampleShape kShape{2, 4, 5, 3};

std::vector<float> Image() {
  std::vector<float> pixels(kShape.elements());
  std::iota(pixels.begin(), pixels.end(), 1.0f);
  return pixels;
}

// The simple way: a padded copy, then a window of the copy.
std::vector<float> CropByCopy(const std::vector<float>& image, int padding, int top, int left) {
  std::vector<float> out;
  for (int c = 0; c < kShape.channels; ++c) {
    for (int y = top - padding; y < top - padding + kShape.height; ++y) {
      for (int x = left - padding; x < left - padding + kShape.width; ++x) {
        const bool inside = y >= 0 && y < kShape.height && x >= 0 && x < kShape.width;
        out.push_back(inside ? image[(c * kShape.height + y) * kShape.width + x] : 0.0f);
      }
    }
  }
  return out;
}

TEST(TransformsTest, CropGivesEveryWindowAndNothingElse) {
  const int padding = 3;
  std::map<std::vector<float>, int> windows;
  for (int top = 0; top <= 2 * padding; ++top) {
    for (int left = 0; left <= 2 * padding; ++left) {
      windows[CropByCopy(Image(), padding, top, left)] = 0;
    }
  }
  ASSERT_EQ(windows.size(), 49u);
  const RandomCrop crop(kShape, padding, /*seed=*/5);
  for (uint64_t index = 0; index < 4900; ++index) {
    std::vector<float> pixels = Image();
    crop.Apply({1, index}, pixels);
    const auto it = windows.find(pixels);
    ASSERT_NE(it, windows.end()) << index;
    ++it->second;
  }
  for (const auto& [window, count] : windows) {
    EXPECT_GT(count, 50);  // 100 expected, with a deviation of 10
    EXPECT_LT(count, 150);
  }
}

TEST(TransformsTest, FlipMirrorsHalfOfTheSamples) {
  std::vector<float> mirrored;
  for (int row = 0; row < 8; ++row) {
    for (int x = 4; x >= 0; --x) mirrored.push_back(Image()[row * 5 + x]);
  }
  const RandomFlip flip(kShape, /*seed=*/5);
  int flipped = 0;
  for (uint64_t index = 0; index < 1000; ++index) {
    std::vector<float> pixels = Image();
    flip.Apply({0, index}, pixels);
    if (pixels == mirrored) {
      ++flipped;
    } else {
      ASSERT_EQ(pixels, Image());
    }
  }
  EXPECT_NEAR(flipped, 500, 80);
}

TEST(TransformsTest, SameSampleAndEpochSameAugmentation) {
  const auto augmented = [](uint64_t seed, uint32_t epoch, uint64_t index) {
    std::vector<float> pixels = Image();
    RandomCrop(kShape, 3, seed).Apply({epoch, index}, pixels);
    RandomFlip(kShape, seed).Apply({epoch, index}, pixels);
    return pixels;
  };
  int other_epoch = 0, other_seed = 0;
  for (uint64_t index = 0; index < 100; ++index) {
    const std::vector<float> first = augmented(1, 2, index);
    ASSERT_EQ(first, augmented(1, 2, index));
    other_epoch += first != augmented(1, 3, index);
    other_seed += first != augmented(4, 2, index);
  }
  EXPECT_GT(other_epoch, 90);
  EXPECT_GT(other_seed, 90);
}

TEST(TransformsTest, NormalizeEachChannel) {
  std::vector<float> pixels = Image();
  Normalize(kShape, {{1.0f, 21.0f}, {2.0f, 4.0f}}).Apply({}, pixels);
  EXPECT_EQ(pixels[0], 0.0f);
  EXPECT_EQ(pixels[2], 1.0f);
  EXPECT_EQ(pixels[20], 0.0f);
  EXPECT_EQ(pixels[24], 1.0f);
}

class ConstantDataset final : public Dataset {
 public:
  size_t size() const override { return 3; }
  SampleShape shape() const override { return {1, 2, 2, 2}; }
  absl::Status Read(const SampleKey&, const Sample& sample) const override {
    std::ranges::fill(sample.values, 0.3f);
    sample.labels[0] = 0;
    return absl::OkStatus();
  }
};

TEST(NormalizationTest, ConstantChannelHasDeviationOne) {
  const Normalization measured = MeasureNormalization(ConstantDataset()).value();
  EXPECT_FLOAT_EQ(measured.mean[0], 0.3f);
  EXPECT_EQ(measured.stddev[0], 1.0f);
}

TEST(NormalizationTest, MeasuredValuesNormalise) {
  SyntheticOptions options;
  options.shape = {3, 7, 5, 4};
  options.samples = 400;
  const auto set = *SyntheticDataset::Create(options);
  const Normalize normalize(options.shape, MeasureNormalization(*set).value());
  std::vector<double> sum(3), squares(3);
  std::vector<float> pixels(options.shape.elements());
  int32_t label;
  for (size_t i = 0; i < set->size(); ++i) {
    ASSERT_TRUE(set->Read({0, i}, {.values = pixels, .labels = {&label, 1}}).ok());
    normalize.Apply({}, pixels);
    for (size_t j = 0; j < pixels.size(); ++j) {
      sum[j / 35] += pixels[j];
      squares[j / 35] += pixels[j] * pixels[j];
    }
  }
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(sum[c] / (400 * 35), 0.0, 1e-4);
    EXPECT_NEAR(squares[c] / (400 * 35), 1.0, 1e-4);
  }
}

}  // namespace
}  // namespace psgd
