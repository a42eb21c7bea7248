#include "data/transforms.h"

#include <algorithm>
#include <cstring>

namespace psgd {
namespace {

// Keeps the draws of different transforms apart.
constexpr uint64_t kCropSalt = 1, kFlipSalt = 2;

PhiloxBlock Draw(PhiloxKey random, const SampleKey& key) {
  return Philox(random, key.index, key.epoch);
}

int Below(uint32_t bits, int n) {
  return static_cast<int>((static_cast<uint64_t>(bits) * static_cast<uint32_t>(n)) >> 32);
}

// row[x] = row[x + shift], zero if that is outside.
void ShiftRow(float* row, const float* from, int width, int shift) {
  const auto kept = static_cast<size_t>(width - std::abs(shift));
  const auto gap = static_cast<size_t>(std::abs(shift));
  float* to = shift < 0 ? row + gap : row;
  std::memmove(to, shift > 0 ? from + shift : from, kept * sizeof(float));
  std::fill_n(shift < 0 ? row : row + kept, gap, 0.0f);
}

// As ShiftRow, in both directions. The order of rows makes sure that each row is read before it is
// overwritten.
void ShiftPlane(float* plane, int height, int width, int down, int right) {
  for (int i = 0; i < height; ++i) {
    const int y = down >= 0 ? i : height - 1 - i;
    float* row = plane + static_cast<ptrdiff_t>(y) * width;
    const int source = y + down;
    if (source < 0 || source >= height) {
      std::fill_n(row, width, 0.0f);
    } else {
      ShiftRow(row, plane + static_cast<ptrdiff_t>(source) * width, width, right);
    }
  }
}

}  // namespace

RandomCrop::RandomCrop(const SampleShape& shape, int padding, uint64_t seed)
    : shape_(shape),
      padding_(padding),
      random_(MakeKey(seed, RandomPurpose::kAugment, kCropSalt)) {}

void RandomCrop::Apply(const SampleKey& key, std::span<float> pixels) const {
  const PhiloxBlock draw = Draw(random_, key);
  const int down = Below(draw.word[0], 2 * padding_ + 1) - padding_;
  const int right = Below(draw.word[1], 2 * padding_ + 1) - padding_;
  const size_t plane = shape_.elements() / static_cast<size_t>(shape_.channels);
  for (size_t start = 0; start < pixels.size(); start += plane) {
    ShiftPlane(pixels.data() + start, shape_.height, shape_.width, down, right);
  }
}

RandomFlip::RandomFlip(const SampleShape& shape, uint64_t seed)
    : shape_(shape), random_(MakeKey(seed, RandomPurpose::kAugment, kFlipSalt)) {}

void RandomFlip::Apply(const SampleKey& key, std::span<float> pixels) const {
  if ((Draw(random_, key).word[0] >> 31) == 0) return;
  for (float* row = pixels.data(); row < pixels.data() + pixels.size(); row += shape_.width) {
    std::reverse(row, row + shape_.width);
  }
}

Normalize::Normalize(const SampleShape& shape, const Normalization& normalization)
    : plane_(static_cast<size_t>(shape.height) * static_cast<size_t>(shape.width)),
      mean_(normalization.mean) {
  for (const float stddev : normalization.stddev) inverse_.push_back(1.0f / stddev);
}

void Normalize::Apply(const SampleKey&, std::span<float> pixels) const {
  for (size_t channel = 0; channel < mean_.size(); ++channel) {
    const float mean = mean_[channel], inverse = inverse_[channel];
    float* plane = pixels.data() + channel * plane_;
    for (size_t i = 0; i < plane_; ++i) plane[i] = (plane[i] - mean) * inverse;
  }
}

}  // namespace psgd
