#include "data/color_jitter.h"

#include <algorithm>

namespace psgd {
namespace {

constexpr uint64_t kJitterSalt = 4;  // keeps its draws apart from those of other transforms
// What red, green and blue give to brightness (ITU-R BT.601).
constexpr float kRed = 0.299f, kGreen = 0.587f, kBlue = 0.114f;

float Cut(float x) { return std::min(std::max(x, 0.0f), 1.0f); }

float Factor(float strength, uint32_t bits) {
  return 1.0f + strength * (2.0f * UnitFloat(bits) - 1.0f);
}

}  // namespace

ColorJitter::ColorJitter(const SampleShape& shape, const ColorJitterOptions& options, uint64_t seed)
    : plane_(static_cast<size_t>(shape.height) * static_cast<size_t>(shape.width)),
      colours_(shape.channels == 3),
      options_(options),
      random_(MakeKey(seed, RandomPurpose::kAugment, kJitterSalt)) {}

void ColorJitter::Apply(const SampleKey& key, std::span<float> pixels) const {
  const PhiloxBlock draw = Philox(random_, key.index, key.epoch);
  const float brightness = Factor(options_.brightness, draw.word[0]);
  const float contrast = Factor(options_.contrast, draw.word[1]);
  const float saturation = Factor(options_.saturation, draw.word[2]);
  if (options_.brightness > 0) {
    for (float& x : pixels) x = Cut(x * brightness);
  }
  float* const red = pixels.data();
  float* const green = colours_ ? red + plane_ : red;
  float* const blue = colours_ ? green + plane_ : red;
  const auto grey = [&](size_t i) { return kRed * red[i] + kGreen * green[i] + kBlue * blue[i]; };
  if (options_.contrast > 0) {
    double sum = 0;
    for (size_t i = 0; i < plane_; ++i) sum += grey(i);
    const float mean = static_cast<float>(sum / static_cast<double>(plane_));
    for (float& x : pixels) x = Cut(mean + contrast * (x - mean));
  }
  if (options_.saturation > 0 && colours_) {
    for (size_t i = 0; i < plane_; ++i) {
      const float own = grey(i);
      red[i] = Cut(own + saturation * (red[i] - own));
      green[i] = Cut(own + saturation * (green[i] - own));
      blue[i] = Cut(own + saturation * (blue[i] - own));
    }
  }
}

}  // namespace psgd
