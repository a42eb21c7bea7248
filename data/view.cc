#include "data/view.h"

#include <algorithm>
#include <cmath>

namespace psgd {
namespace {

constexpr uint64_t kViewSalt = 3;       // keeps these draws apart from those of data/transforms.cc
constexpr int kAttempts = 10;           // to find a part that fits, as in the literature
constexpr double kUsualZoom = 8.0 / 7;  // 256 to 224

double Between(double low, double high, float unit) { return low + (high - low) * unit; }

// Returns the largest central window of at most that ratio of sides.
Window LargestWithin(double most_ratio, double width, double height) {
  const double w = std::min(width, height * most_ratio);
  const double h = std::min(height, width * most_ratio);
  return {(width - w) / 2, (height - h) / 2, w, h};
}

}  // namespace

Viewer Viewer::Centred(const ImagesConfig& images) {
  Viewer viewer;
  viewer.zoom_ =
      images.resize() == 0 ? kUsualZoom : static_cast<double>(images.resize()) / images.size();
  return viewer;
}

Viewer Viewer::Augmented(const ImagesConfig& images, const AugmentConfig& augment, uint64_t seed) {
  Viewer viewer = Centred(images);
  viewer.random_part_ = augment.resized_crop();
  viewer.flip_ = augment.flip();
  viewer.least_area_ = augment.crop_area();
  viewer.most_ratio_ = augment.crop_ratio();
  viewer.random_ = MakeKey(seed, RandomPurpose::kAugment, kViewSalt);
  return viewer;
}

View Viewer::Choose(const SampleKey& key, int width, int height) const {
  // Indices are below 2^32, so each epoch's sample has its own stream.
  RandomStream random(random_, uint64_t{key.epoch} << 32 | key.index);
  View view;
  view.mirrored = flip_ && (random.NextBits() >> 31) != 0;
  view.window = random_part_ ? RandomPart(&random, width, height) : Centre(width, height);
  return view;
}

Window Viewer::Centre(int width, int height) const {
  const double side = std::max(1.0, std::min(width, height) / zoom_);
  return {(width - side) / 2, (height - side) / 2, side, side};
}

// Inception's distorted crops (Szegedy et al., "Going deeper with convolutions", 2014): a random
// share of the area and a random ratio of sides, uniform in its logarithm; whole pixels.
Window Viewer::RandomPart(RandomStream* random, int width, int height) const {
  const double area = static_cast<double>(width) * height;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double part = area * Between(least_area_, 1, random->NextUnit());
    const double log_ratio = std::log(most_ratio_);
    const double ratio = std::exp(Between(-log_ratio, log_ratio, random->NextUnit()));
    const double w = std::max(1.0, std::round(std::sqrt(part * ratio)));
    const double h = std::max(1.0, std::round(std::sqrt(part / ratio)));
    if (w > width || h > height) continue;
    const uint32_t left = random->NextBelow(static_cast<uint32_t>(width - w) + 1);
    const uint32_t top = random->NextBelow(static_cast<uint32_t>(height - h) + 1);
    return {static_cast<double>(left), static_cast<double>(top), w, h};
  }
  return LargestWithin(most_ratio_, width, height);
}

}  // namespace psgd
