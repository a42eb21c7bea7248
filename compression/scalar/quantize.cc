#include "compression/scalar/quantize.h"

#include <algorithm>

#include "compression/dense/quantize_random.h"
#include "compression/dense/quantized_unit.h"
#include "compression/payload_bytes.h"
#include "compression/sparse/select.h"

namespace psgd::scalar {

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

}  // namespace psgd::scalar
