#include "compression/scalar/topk.h"

#include <bit>

namespace psgd::scalar {

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

}  // namespace psgd::scalar
