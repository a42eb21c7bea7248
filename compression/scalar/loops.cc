#include "compression/scalar/loops.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "compression/dense/natural.h"
#include "compression/dense/quantized.h"
#include "compression/dense/ternary_value.h"
#include "compression/payload_bytes.h"
#include "compression/sparse/select.h"

namespace psgd::scalar {

void Add(std::span<const float> x, std::span<float> y) {
  for (size_t i = 0; i < x.size(); ++i) y[i] += x[i];
}

void AddScaled(float scale, const std::byte* x, std::span<float> y) {
  for (size_t i = 0; i < y.size(); ++i) y[i] += scale * LoadField<float>(x + i * sizeof(float));
}

double SumSquares(std::span<const float> x) {
  Lanes<double> squares;
  for (size_t i = 0; i < x.size(); ++i) {
    squares.value[i % kLanes] += static_cast<double>(x[i]) * x[i];
  }
  return squares.Sum();
}

void Blend(float keep, std::span<const float> x, float share, std::span<float> y) {
  for (size_t i = 0; i < y.size(); ++i) y[i] = keep * y[i] + share * x[i];
}

double Dot(std::span<const float> x, const float* y) {
  Lanes<float> sums;
  for (size_t i = 0; i < x.size(); ++i) sums.value[i % kLanes] += x[i] * y[i];
  return sums.Sum();
}

void Expand(const std::byte* left, const std::byte* right, size_t stride, uint32_t rank,
            float scale, std::span<float> y) {
  for (size_t i = 0; i < y.size(); ++i) {
    float sum = 0;
    for (uint32_t k = 0; k < rank; ++k) {
      sum += LoadField<float>(left + k * sizeof(float)) *
             LoadField<float>(right + (k * stride + i) * sizeof(float));
    }
    y[i] += scale * sum;
  }
}

void Multiply(const float* left, size_t rows, size_t rank, const float* right, size_t stride,
              size_t columns, float* out) {
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) {
      float sum = 0;
      for (size_t k = 0; k < rank; ++k) sum += left[r * rank + k] * right[k * stride + c];
      out[r * columns + c] = sum;
    }
  }
}

void Accumulate(std::span<const float> gradient, float scale, float momentum, float* velocity,
                float* sum) {
  for (size_t i = 0; i < gradient.size(); ++i) {
    velocity[i] = momentum * velocity[i] + scale * gradient[i];
    if (sum != nullptr) sum[i] += velocity[i];
  }
}

void EncodeNatural(std::span<const float> gradient, float* residual, const NaturalDraw& draw,
                   std::byte* exponents, std::byte* signs) {
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float corrected = residual != nullptr ? gradient[i] + residual[i] : gradient[i];
    const uint32_t word = Philox(draw.key, i / 4, draw.step).word[i % 4];
    const uint8_t exponent = NaturalExponent(corrected, word);
    const bool negative = std::signbit(corrected);
    exponents[i] = static_cast<std::byte>(exponent);
    if (i % 8 == 0) signs[i / 8] = std::byte{0};
    signs[i / 8] |= static_cast<std::byte>(negative << (i % 8));
    if (residual != nullptr) residual[i] = corrected - NaturalValue(exponent, negative);
  }
}

void AddNatural(const std::byte* exponents, const std::byte* signs, size_t first, float scale,
                std::span<float> y) {
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t at = first + i;
    const bool negative = ((signs[at / 8] >> (at % 8)) & std::byte{1}) != std::byte{0};
    y[i] += scale * NaturalValue(std::to_integer<uint8_t>(exponents[at]), negative);
  }
}

SignSums SplitSigns(std::span<const float> gradient, float* residual, std::byte* bits) {
  Lanes<float> positive, negative;
  SignSums sums;
  SplitSignsInto(gradient, residual, bits, &positive, &negative, &sums.positive_count);
  sums.positive = positive.Sum();
  sums.negative = negative.Sum();
  return sums;
}

void SplitSignsInto(std::span<const float> gradient, float* residual, std::byte* bits,
                    Lanes<float>* positive, Lanes<float>* negative, uint32_t* positive_count) {
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float corrected = residual != nullptr ? gradient[i] + residual[i] : gradient[i];
    if (residual != nullptr) residual[i] = corrected;
    const bool bit = corrected >= 0;
    (bit ? positive : negative)->value[i % kLanes] += corrected;
    *positive_count += bit;
    if (i % 8 == 0) bits[i / 8] = std::byte{0};
    bits[i / 8] |= static_cast<std::byte>(bit << (i % 8));
  }
}

void AddSigns(const std::byte* bits, size_t first, float high, float low, std::span<float> y) {
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t at = first + i;
    const bool bit = ((bits[at / 8] >> (at % 8)) & std::byte{1}) != std::byte{0};
    y[i] += bit ? high : low;
  }
}

uint32_t Largest(std::span<const float> gradient, float* residual) {
  uint32_t largest = 0;
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float corrected = residual != nullptr ? gradient[i] + residual[i] : gradient[i];
    if (residual != nullptr) residual[i] = corrected;
    largest = std::max(largest, MagnitudeBits(corrected));
  }
  return largest;
}

void Quantize(std::span<const float> corrected, const QuantizeDraw& draw, int8_t* levels,
              float* residual) {
  for (size_t i = 0; i < corrected.size(); ++i) {
    const float value = corrected[i];
    const float part = draw.stochastic
                           ? RandomPart(draw.key, draw.step, draw.first + static_cast<uint32_t>(i))
                           : 0.5f;
    levels[i] = LevelOf(value, draw.inverse, part, draw.largest_level);
    if (residual != nullptr) residual[i] = value - draw.unit * static_cast<float>(levels[i]);
  }
}

void PackCodes(const uint8_t* codes, size_t groups, uint32_t bits, std::byte* out) {
  for (size_t g = 0; g < groups; ++g, codes += 16) {
    for (uint32_t plane = 0; plane < bits; ++plane, out += 2) {
      unsigned word = 0;
      for (unsigned i = 0; i < 16; ++i) word |= ((codes[i] >> plane) & 1u) << i;
      StoreField(static_cast<uint16_t>(word), out);
    }
  }
}

void UnpackCodes(const std::byte* in, size_t groups, uint32_t bits, uint8_t* codes) {
  for (size_t g = 0; g < groups; ++g, codes += 16) {
    std::fill_n(codes, 16, uint8_t{0});
    for (uint32_t plane = 0; plane < bits; ++plane, in += 2) {
      const auto word = LoadField<uint16_t>(in);
      for (unsigned i = 0; i < 16; ++i) {
        codes[i] = static_cast<uint8_t>(codes[i] | ((word >> i) & 1u) << plane);
      }
    }
  }
}

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

size_t Gather(std::span<const float> gradient, float* residual, uint32_t least, uint32_t first,
              uint32_t* indices, float* values) {
  size_t found = 0;
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float corrected = residual != nullptr ? gradient[i] + residual[i] : gradient[i];
    if (residual != nullptr) residual[i] = corrected;
    // Every entry is written, but only a large one is kept: no branch to mispredict.
    indices[found] = first + static_cast<uint32_t>(i);
    values[found] = corrected;
    found += (std::bit_cast<uint32_t>(corrected) & 0x7FFFFFFFu) >= least;
  }
  return found;
}

LevelSums SumLevels(std::span<const float> values, const ChunkLevels& levels) {
  LevelSums lanes[kLanes];
  for (size_t i = 0; i < values.size(); ++i) {
    const float magnitude = std::fabs(values[i]);
    lanes[i % kLanes].Add(levels.Nearest(magnitude), magnitude);
  }
  LevelSums sums;
  for (const LevelSums& lane : lanes) sums.Add(lane);
  return sums;
}

}  // namespace psgd::scalar
