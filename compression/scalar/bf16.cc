#include "compression/scalar/bf16.h"

#include "compression/dense/brain.h"
#include "compression/payload_bytes.h"

namespace psgd::scalar {

void EncodeBrains(std::span<const float> gradient, float* residual, std::byte* out) {
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float corrected = residual != nullptr ? gradient[i] + residual[i] : gradient[i];
    const uint16_t brain = BrainFromFloat(corrected);
    StoreField(brain, out + i * sizeof(brain));
    if (residual != nullptr) residual[i] = corrected - FloatFromBrain(brain);
  }
}

void AddBrains(float scale, const std::byte* brains, std::span<float> y) {
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] += scale * FloatFromBrain(LoadField<uint16_t>(brains + i * sizeof(uint16_t)));
  }
}

bool AllFiniteBrains(const std::byte* brains, size_t count) {
  bool finite = true;
  for (size_t i = 0; i < count; ++i) {
    const auto brain = LoadField<uint16_t>(brains + i * sizeof(uint16_t));
    finite &= (brain & kBrainExponent) != kBrainExponent;
  }
  return finite;
}

}  // namespace psgd::scalar
