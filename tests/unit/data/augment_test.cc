// What is random about pictures: parts, mirroring, colours.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "data/color_jitter.h"
#include "data/view.h"

namespace psgd {
namespace {

ImagesConfig Images(int size, int resize) {
  ImagesConfig images;
  images.set_size(size);
  images.set_resize(resize);
  return images;
}

AugmentConfig ResizedCrop() {
  AugmentConfig augment;
  augment.set_resized_crop(true);
  augment.set_flip(true);
  return augment;
}

bool Same(const View& a, const View& b) {
  return a.window.left == b.window.left && a.window.top == b.window.top &&
         a.window.width == b.window.width && a.window.height == b.window.height &&
         a.mirrored == b.mirrored;
}

TEST(ViewTest, TheMiddleForTests) {
  const View view = Viewer::Centred(Images(224, 256)).Choose({3, 4}, 512, 768);
  EXPECT_DOUBLE_EQ(view.window.width, 448);  // 224 of 256 of the shorter side
  EXPECT_DOUBLE_EQ(view.window.height, 448);
  EXPECT_DOUBLE_EQ(view.window.left, 32);
  EXPECT_DOUBLE_EQ(view.window.top, 160);
  EXPECT_FALSE(view.mirrored);
  EXPECT_TRUE(Same(view, Viewer::Centred(Images(224, 0)).Choose({0, 1}, 512, 768)));
  const View whole = Viewer::Centred(Images(32, 32)).Choose({}, 20, 30);
  EXPECT_DOUBLE_EQ(whole.window.width, 20);
  const View least = Viewer::Centred(Images(224, 1000)).Choose({}, 1, 1);
  EXPECT_DOUBLE_EQ(least.window.width, 1);
}

TEST(ViewTest, RandomPartsAreThoseOfTheLiterature) {
  const Viewer viewer = Viewer::Augmented(Images(224, 0), ResizedCrop(), 1);
  const int width = 500, height = 400, samples = 4000;
  double log_ratio = 0, left = 0;
  int mirrored = 0;
  for (uint64_t i = 0; i < samples; ++i) {
    const View view = viewer.Choose({2, i}, width, height);
    const Window& w = view.window;
    ASSERT_GE(w.left, 0);
    ASSERT_GE(w.top, 0);
    ASSERT_LE(w.left + w.width, width);
    ASSERT_LE(w.top + w.height, height);
    const double share = w.width * w.height / (width * height);
    ASSERT_GE(share, 0.079);
    ASSERT_LE(w.width / w.height, 1.36);
    ASSERT_GE(w.width / w.height, 1 / 1.36);
    log_ratio += std::log(w.width / w.height);
    left += w.width == width ? 0.5 : w.left / (width - w.width);
    mirrored += view.mirrored;
  }
  EXPECT_NEAR(log_ratio / samples, 0.03, 0.03);  // the picture is wide
  EXPECT_NEAR(left / samples, 0.5, 0.02);
  EXPECT_NEAR(static_cast<double>(mirrored) / samples, 0.5, 0.03);
}

// Where every part fits, none is drawn again.
TEST(ViewTest, AreasAreSpreadEvenly) {
  AugmentConfig augment = ResizedCrop();
  augment.set_crop_ratio(1);
  const Viewer viewer = Viewer::Augmented(Images(224, 0), augment, 1);
  std::vector<int> tenths(10);
  for (uint64_t i = 0; i < 4000; ++i) {
    const Window window = viewer.Choose({0, i}, 1000, 1000).window;
    ASSERT_EQ(window.width, window.height);
    const double place = (window.width * window.height / 1e6 - 0.08) / 0.92;
    ++tenths[static_cast<size_t>(std::clamp(place, 0.0, 0.999) * 10)];
  }
  for (const int count : tenths) EXPECT_NEAR(count, 400, 80);
}

TEST(ViewTest, ExtremeShapesStillHaveAPart) {
  const Viewer viewer = Viewer::Augmented(Images(224, 0), ResizedCrop(), 1);
  for (uint64_t i = 0; i < 100; ++i) {
    const Window wide = viewer.Choose({0, i}, 3000, 2).window;
    EXPECT_LE(wide.left + wide.width, 3000);
    EXPECT_LE(wide.height, 2);
    const Window pixel = viewer.Choose({0, i}, 1, 1).window;
    EXPECT_EQ(pixel.width, 1);
    EXPECT_EQ(pixel.height, 1);
  }
}

TEST(ViewTest, DependsOnSeedEpochAndSampleAlone) {
  const Viewer viewer = Viewer::Augmented(Images(224, 0), ResizedCrop(), 1);
  const Viewer twin = Viewer::Augmented(Images(224, 0), ResizedCrop(), 1);
  const Viewer other = Viewer::Augmented(Images(224, 0), ResizedCrop(), 2);
  int same_epoch = 0, same_seed = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(Same(viewer.Choose({1, i}, 500, 400), twin.Choose({1, i}, 500, 400)));
    same_epoch += Same(viewer.Choose({1, i}, 500, 400), viewer.Choose({2, i}, 500, 400));
    same_seed += Same(viewer.Choose({1, i}, 500, 400), other.Choose({1, i}, 500, 400));
  }
  EXPECT_LT(same_epoch, 3);
  EXPECT_LT(same_seed, 3);
}

constexpr SampleShape kColours{3, 2, 4, 2};

std::vector<float> Jittered(const ColorJitterOptions& options, uint64_t index) {
  std::vector<float> pixels;
  for (int i = 0; i < 24; ++i) pixels.push_back(0.2f + 0.025f * static_cast<float>(i * 7 % 24));
  ColorJitter(kColours, options, 5).Apply({1, index}, pixels);
  return pixels;
}

TEST(ColorJitterTest, BrightnessMultipliesByAnEvenlySpreadFactor) {
  const std::vector<float> plain = Jittered({}, 0);
  double sum = 0;
  float least = 9, most = 0;
  for (uint64_t i = 0; i < 2000; ++i) {
    const std::vector<float> pixels = Jittered({.brightness = 0.2f}, i);
    const float factor = pixels[0] / plain[0];
    for (size_t k = 0; k < 24; ++k) ASSERT_NEAR(pixels[k], factor * plain[k], 1e-5);
    sum += factor;
    least = std::min(least, factor);
    most = std::max(most, factor);
  }
  EXPECT_NEAR(sum / 2000, 1, 0.01);
  EXPECT_NEAR(least, 0.8, 0.005);
  EXPECT_NEAR(most, 1.2, 0.005);
}

float Grey(const std::vector<float>& pixels, size_t i) {
  return 0.299f * pixels[i] + 0.587f * pixels[8 + i] + 0.114f * pixels[16 + i];
}

TEST(ColorJitterTest, ContrastKeepsTheMeanSaturationEachGrey) {
  const std::vector<float> plain = Jittered({}, 0);
  double mean = 0;
  for (size_t i = 0; i < 8; ++i) mean += Grey(plain, i) / 8;
  for (uint64_t sample = 0; sample < 50; ++sample) {
    const std::vector<float> contrast = Jittered({.contrast = 0.2f}, sample);
    const std::vector<float> saturation = Jittered({.saturation = 0.2f}, sample);
    double after = 0;
    for (size_t i = 0; i < 8; ++i) {
      after += Grey(contrast, i) / 8;
      EXPECT_NEAR(Grey(saturation, i), Grey(plain, i), 1e-5);
    }
    EXPECT_NEAR(after, mean, 1e-5);
    EXPECT_NE(contrast, plain);
    EXPECT_NE(saturation, plain);
  }
}

TEST(ColorJitterTest, StaysWithinTheRange) {
  for (uint64_t i = 0; i < 200; ++i) {
    for (const float x : Jittered({1, 1, 1}, i)) {
      ASSERT_GE(x, 0);
      ASSERT_LE(x, 1);
    }
  }
}

}  // namespace
}  // namespace psgd
