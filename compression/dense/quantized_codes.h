// Levels, and the groups of their codes; see quantized_layout.h. No Abseil: nvcc reads this.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/host_device.h"

namespace psgd {

inline constexpr size_t kCodeGroup = 16;  // elements whose codes share words

PS_HD constexpr int LargestLevel(uint32_t bits) { return (1 << (bits - 1)) - 1; }

}  // namespace psgd
