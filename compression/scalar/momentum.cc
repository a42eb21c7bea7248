#include "compression/scalar/momentum.h"

namespace psgd::scalar {

void Accumulate(std::span<const float> gradient, float scale, float momentum, float* velocity,
                float* sum) {
  for (size_t i = 0; i < gradient.size(); ++i) {
    velocity[i] = momentum * velocity[i] + scale * gradient[i];
    if (sum != nullptr) sum[i] += velocity[i];
  }
}

}  // namespace psgd::scalar
