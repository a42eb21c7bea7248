#include "data/color_jitter.h"

#include <algorithm>
#include <cmath>

namespace psgd {
namespace {

constexpr uint64_t kJitterSalt = 4;  // keeps these draws apart from those of other transforms
// Contributions of red, green and blue to brightness (ITU-R BT.601).
constexpr float kRed = 0.299f, kGreen = 0.587f, kBlue = 0.114f;

float Cut(float x) { return std::min(std::max(x, 0.0f), 1.0f); }

float Factor(float strength, uint32_t bits) {
  return 1.0f + strength * (2.0f * UnitFloat(bits) - 1.0f);
}

// Returns the hue in sixths of a turn: red 0, green 2, blue 4. In [0, 6), and 0 for gray.
float Hue(float red, float green, float blue, float most, float range) {
  if (range <= 0) return 0;
  if (most == red) return green >= blue ? (green - blue) / range : 6 + (green - blue) / range;
  return most == green ? 2 + (blue - red) / range : 4 + (red - green) / range;
}

// `hue` is as above, but from 0 up to 12; `place` is 5 for red, 3 for green, 1 for blue.
float Channel(float place, float hue, float most, float range) {
  const float k = std::fmod(place + hue, 6.0f);
  return most - range * Cut(std::min(k, 4 - k));
}

void TurnHue(float turn, float* red, float* green, float* blue) {
  const float most = std::max({*red, *green, *blue}), least = std::min({*red, *green, *blue});
  const float range = most - least;
  const float hue = Hue(*red, *green, *blue, most, range) + 6 * (turn < 0 ? turn + 1 : turn);
  *red = Channel(5, hue, most, range);
  *green = Channel(3, hue, most, range);
  *blue = Channel(1, hue, most, range);
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
  const float turn = Factor(options_.hue, draw.word[3]) - 1;
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
  if (options_.hue > 0 && colours_) {
    for (size_t i = 0; i < plane_; ++i) TurnHue(turn, &red[i], &green[i], &blue[i]);
  }
}

}  // namespace psgd
