#include "compression/scalar/ternary.h"

#include <algorithm>
#include <cmath>

#include "compression/dense/ternary_group.h"

namespace psgd::scalar {

Moments Measure(std::span<const float> gradient, float* residual) {
  Lanes<float> largest;
  Lanes<double> squares;
  MeasureInto(gradient, residual, &largest, &squares);
  return {largest.Largest(), squares.Sum()};
}

void MeasureInto(std::span<const float> gradient, float* residual, Lanes<float>* largest,
                 Lanes<double>* squares) {
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float corrected = residual != nullptr ? gradient[i] + residual[i] : gradient[i];
    if (residual != nullptr) residual[i] = corrected;
    float& lane = largest->value[i % kLanes];
    lane = std::max(lane, std::fabs(corrected));
    squares->value[i % kLanes] += static_cast<double>(corrected) * corrected;
  }
}

Drawn DrawTrits(std::span<const float> corrected, const TernaryDraw& draw, std::byte* out) {
  const float unit = draw.limit * kDrawUnit;
  Lanes<double> magnitudes;
  Drawn drawn;
  for (size_t begin = 0; begin < corrected.size(); begin += kTernaryGroup) {
    const size_t count = std::min(kTernaryGroup, corrected.size() - begin);
    Lanes<float> group;  // short sums in fp32 are cheap; the long one is in double
    uint8_t digits[kTernaryGroup];
    std::fill_n(digits, kTernaryGroup, uint8_t{1});
    for (size_t i = 0; i < count; ++i) {
      const size_t element = begin + i;
      const size_t drawn_as = draw.first + element;
      const uint32_t word = Philox(draw.key, drawn_as / 4, draw.step).word[drawn_as % 4];
      const float magnitude = std::fabs(corrected[element]);
      if (!IsDrawn(word, unit, magnitude)) continue;
      group.value[i % kLanes] += magnitude;
      ++drawn.count;
      digits[i] = corrected[element] < 0 ? 0 : 2;
    }
    for (size_t lane = 0; lane < kLanes; ++lane) magnitudes.value[lane] += group.value[lane];
    PackDigits(digits, TernaryBytes(count), out);
    out += TernaryBytes(count);
  }
  drawn.sum = magnitudes.Sum();
  return drawn;
}

void PackDigits(const uint8_t* digits, size_t bytes, std::byte* out) {
  for (size_t j = 0; j < bytes; ++j) {
    unsigned packed = 0;
    for (size_t t = kTernaryDigits; t-- > 0;) packed = packed * 3 + digits[j + bytes * t];
    out[j] = static_cast<std::byte>(packed);
  }
}

void UnpackTrits(const std::byte* in, size_t bytes, int8_t* trits) {
  for (size_t j = 0; j < bytes; ++j) {
    unsigned rest = std::to_integer<unsigned>(in[j]);
    for (size_t t = 0; t < kTernaryDigits; ++t, rest /= 3) {
      trits[j + bytes * t] = static_cast<int8_t>(static_cast<int>(rest % 3) - 1);
    }
  }
}

void AddTrits(const int8_t* trits, float scale, std::span<float> y) {
  for (size_t i = 0; i < y.size(); ++i) y[i] += scale * static_cast<float>(trits[i]);
}

}  // namespace psgd::scalar
