// Random ids that are unique in practice.
#pragma once

#include <cstdint>
#include <random>

namespace psgd {

// Never returns 0, which means "no id".
inline uint64_t RandomId() {
  std::random_device random;
  return (uint64_t{random()} << 32 | random()) | 1;
}

}  // namespace psgd
