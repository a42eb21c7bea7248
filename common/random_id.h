// Names that nobody else draws.
#pragma once

#include <cstdint>
#include <random>

namespace psgd {

// Never 0, which says that there is none.
inline uint64_t RandomId() {
  std::random_device random;
  return (uint64_t{random()} << 32 | random()) | 1;
}

}  // namespace psgd
