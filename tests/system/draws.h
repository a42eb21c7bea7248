// Random values of made tables and texts, the same in every run.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/philox.h"

namespace psgd {

class Draws {
 public:
  explicit Draws(uint32_t seed) : random_({seed, 0}, 1) {}
  uint32_t Below(uint32_t end) { return random_.NextBelow(end); }
  float Unit() { return random_.NextUnit(); }
  float Between(float low, float high) { return low + (high - low) * Unit(); }
  // A nearly normal value with deviation 1.
  float Noise() { return (Unit() + Unit() + Unit() + Unit() - 2) * std::sqrt(3.0f); }

 private:
  RandomStream random_;
};

}  // namespace psgd
