// The random changes of pictures: parts, mirroring, colors.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
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

// Every part fits here, so no part is drawn again.
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

// Returns one pixel, turned by the draw of sample `index`.
std::array<float, 3> Turned(std::array<float, 3> pixel, float hue, uint64_t index) {
  ColorJitter({3, 1, 1, 2}, {.hue = hue}, 5).Apply({1, index}, pixel);
  return pixel;
}

// Returns the turn that pure red makes, from half a turn back to half a turn forward, evenly drawn.
// The color gives the turn: up to a sixth green rises, up to two sixths red falls, ...
float TurnOf(uint64_t index) {
  const auto [red, green, blue] = Turned({1, 0, 0}, 0.5f, index);
  const float sixths = blue == 0  ? green + (1 - red)
                       : red == 0 ? 2 + blue + (1 - green)
                                  : 4 + red + (1 - blue);
  return (sixths > 3 ? sixths - 6 : sixths) / 6;
}

TEST(ColorJitterTest, HueIsTurnedByAnEvenlySpreadAngle) {
  std::vector<int> tenths(10);
  for (uint64_t i = 0; i < 4000; ++i) {
    const float turn = TurnOf(i);
    ASSERT_GE(turn, -0.5f);
    ASSERT_LE(turn, 0.5f);
    ++tenths[static_cast<size_t>(std::clamp(turn * 10 + 5, 0.0f, 9.99f))];
    const auto [red, green, blue] = Turned({1, 0, 0}, 0.1f, i);  // a fifth of the same draw
    ASSERT_NEAR(red, 1, 1e-5);
    ASSERT_NEAR(green, std::max(0.0f, turn * 0.2f * 6), 1e-4);
    ASSERT_NEAR(blue, std::max(0.0f, -turn * 0.2f * 6), 1e-4);
  }
  for (const int count : tenths) EXPECT_NEAR(count, 400, 80);
}

// Computed by hand from Smith's hexcone model: (0.8, 0.4, 0.2) is h = 1/18, s = 3/4, v = 0.8.
TEST(ColorJitterTest, HueIsThatOfHsv) {
  struct Case {
    std::array<float, 3> pixel;
    float hue;  // in turns
  };
  for (const Case& test :
       {Case{{0.8f, 0.4f, 0.2f}, 1.0f / 18}, Case{{0.4f, 0.8f, 0.2f}, 5.0f / 18},
        Case{{0.2f, 0.8f, 0.4f}, 7.0f / 18}, Case{{0.2f, 0.4f, 0.8f}, 11.0f / 18},
        Case{{0.4f, 0.2f, 0.8f}, 13.0f / 18}, Case{{0.8f, 0.2f, 0.4f}, 17.0f / 18},
        Case{{0.8f, 0.8f, 0.2f}, 3.0f / 18}, Case{{0.2f, 0.8f, 0.8f}, 9.0f / 18},
        Case{{0.8f, 0.2f, 0.8f}, 15.0f / 18}, Case{{0.8f, 0.2f, 0.2f}, 0}}) {
    for (uint64_t i = 0; i < 20; ++i) {
      float hue = test.hue + TurnOf(i);
      hue -= std::floor(hue);
      // The sector of the hexcone, and the corner of each channel there: 0.8 and 0.2 are v and
      // v (1 - s); between them, a channel rises or falls evenly.
      const int sector = static_cast<int>(hue * 6) % 6;
      const float up = 0.2f + 0.6f * (hue * 6 - static_cast<float>(sector)), down = 1 - up;
      const std::array<float, 3> expected[] = {{0.8f, up, 0.2f}, {down, 0.8f, 0.2f},
                                               {0.2f, 0.8f, up}, {0.2f, down, 0.8f},
                                               {up, 0.2f, 0.8f}, {0.8f, 0.2f, down}};
      const std::array<float, 3> turned = Turned(test.pixel, 0.5f, i);
      for (size_t c = 0; c < 3; ++c) {
        EXPECT_NEAR(turned[c], expected[sector][c], 1e-4) << "channel " << c << ", sample " << i;
      }
    }
  }
}

TEST(ColorJitterTest, HueLeavesGreyAndDependsOnTheSample) {
  const std::array<float, 3> grey = {0.3f, 0.3f, 0.3f}, black = {};
  for (uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(Turned(grey, 0.5f, i), grey);
    EXPECT_EQ(Turned(black, 0.5f, i), black);
    EXPECT_EQ(Turned({0.8f, 0.4f, 0.2f}, 0.3f, i), Turned({0.8f, 0.4f, 0.2f}, 0.3f, i));
    EXPECT_NE(Turned({0.8f, 0.4f, 0.2f}, 0.3f, i), Turned({0.8f, 0.4f, 0.2f}, 0.3f, i + 1));
  }
  std::vector<float> one_channel = {0.1f, 0.2f, 0.3f, 0.4f}, before = one_channel;
  ColorJitter({1, 2, 2, 2}, {.hue = 0.5f}, 5).Apply({1, 1}, one_channel);
  EXPECT_EQ(one_channel, before);
}

TEST(ColorJitterTest, StaysWithinTheRange) {
  for (uint64_t i = 0; i < 200; ++i) {
    for (const float x : Jittered({1, 1, 1, 0.5f}, i)) {
      ASSERT_GE(x, 0);
      ASSERT_LE(x, 1);
    }
  }
}

}  // namespace
}  // namespace psgd
