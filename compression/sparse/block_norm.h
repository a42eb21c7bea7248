// The norm of a block of the blocks codec; see blocks.h. No Abseil: nvcc reads this.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "common/host_device.h"

namespace psgd {

inline constexpr size_t kBlocksHeaderBytes = 16;

PS_HD inline float NormOfBlock(double squares) {
  constexpr double kMost = std::numeric_limits<float>::max();
  const double norm = std::sqrt(squares);
  return static_cast<float>(norm > kMost ? kMost : norm);
}

}  // namespace psgd
