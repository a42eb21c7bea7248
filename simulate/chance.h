// Seeded randomness of the simulation. Each user has a stream of its own, so that one more draw
// here does not change what happens there.
#pragma once

#include <cstdint>

#include "common/clock.h"
#include "common/philox.h"

namespace psgd::sim {

class Chance {
 public:
  Chance(uint64_t seed, uint64_t stream)
      : stream_(PhiloxKey{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}, stream) {
  }

  // Uniform in [0, 1).
  double Unit() { return stream_.NextUnit(); }
  bool Happens(double probability) { return stream_.NextUnit() < probability; }
  // Uniform in [low, high].
  int64_t Between(int64_t low, int64_t high) {
    return low + stream_.NextBelow(static_cast<uint32_t>(high - low + 1));
  }
  Duration Between(Duration low, Duration high) {
    const auto micros = [](Duration d) { return d.count() / 1000; };
    return std::chrono::microseconds(Between(micros(low), micros(high)));
  }
  // One of the values.
  template <typename T>
  T Choice(std::initializer_list<T> values) {
    return values.begin()[stream_.NextBelow(static_cast<uint32_t>(values.size()))];
  }

 private:
  RandomStream stream_;
};

}  // namespace psgd::sim
