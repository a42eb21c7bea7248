#include "compression/scalar/fp16.h"

#include <cstring>

#include "compression/dense/half.h"

namespace psgd::scalar {

void EncodeHalves(std::span<const float> gradient, float* residual, std::byte* out) {
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float corrected = residual != nullptr ? gradient[i] + residual[i] : gradient[i];
    const uint16_t half = HalfFromFloat(corrected);
    std::memcpy(out + i * sizeof(half), &half, sizeof(half));
    if (residual != nullptr) residual[i] = corrected - FloatFromHalf(half);
  }
}

void AddHalves(float scale, const std::byte* halves, std::span<float> y) {
  for (size_t i = 0; i < y.size(); ++i) {
    uint16_t half;
    std::memcpy(&half, halves + i * sizeof(half), sizeof(half));
    y[i] += scale * FloatFromHalf(half);
  }
}

bool AllFiniteHalves(const std::byte* halves, size_t count) {
  bool finite = true;
  for (size_t i = 0; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, halves + i * sizeof(half), sizeof(half));
    finite &= (half & 0x7C00u) != 0x7C00u;
  }
  return finite;
}

}  // namespace psgd::scalar
