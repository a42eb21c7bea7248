// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC'11). A draw is a pure function of (key, counter), so a scalar loop, a SIMD loop and
// a CUDA kernel see the same numbers in any order, and no generator state has to be saved.
#pragma once

#include <cstdint>

#include "common/host_device.h"

namespace psgd {

struct PhiloxKey {
  uint32_t low = 0;
  uint32_t high = 0;
};

struct PhiloxBlock {
  uint32_t word[4];
};

// Names a stream of random numbers. `purpose` keeps draws for different uses apart.
enum class RandomPurpose : uint32_t {
  kInitialWeights = 1,
  kShuffle = 2,
  kAugment = 3,
  kDropout = 4,
  kCodec = 5,
  kSynthetic = 6,
  kNegatives = 7,
  kWeights = 8,  // codecs of weights sent to a worker
};

// Mixes the run's seed and a purpose into a key (splitmix64 finalizer).
PS_HD inline PhiloxKey MakeKey(uint64_t seed, RandomPurpose purpose, uint64_t salt = 0) {
  uint64_t z = seed + 0x9E3779B97F4A7C15ull * (static_cast<uint64_t>(purpose) + 1);
  z ^= salt * 0xD1B54A32D192ED03ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  z ^= z >> 31;
  return {static_cast<uint32_t>(z), static_cast<uint32_t>(z >> 32)};
}

PS_HD inline PhiloxBlock Philox(PhiloxKey key, uint64_t counter_low, uint64_t counter_high) {
  uint32_t c0 = static_cast<uint32_t>(counter_low), c1 = static_cast<uint32_t>(counter_low >> 32);
  uint32_t c2 = static_cast<uint32_t>(counter_high), c3 = static_cast<uint32_t>(counter_high >> 32);
  uint32_t k0 = key.low, k1 = key.high;
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = 0xD2511F53ull * c0;
    const uint64_t p1 = 0xCD9E8D57ull * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// Uniform in [0, 1), on a grid of 2^-24: exact in fp32.
PS_HD inline float UnitFloat(uint32_t bits) {
  return static_cast<float>(bits >> 8) * (1.0f / 16777216.0f);
}

// A cursor over one Philox stream, for code that draws numbers in sequence. Not thread-safe.
class RandomStream {
 public:
  RandomStream(PhiloxKey key, uint64_t stream) : key_(key), stream_(stream) {}

  uint32_t NextBits() {
    if (used_ == 4) {
      block_ = Philox(key_, counter_++, stream_);
      used_ = 0;
    }
    return block_.word[used_++];
  }
  float NextUnit() { return UnitFloat(NextBits()); }
  // Uniform in [0, n). REQUIRES: n > 0. Multiply-shift: the bias is below n / 2^32.
  uint32_t NextBelow(uint32_t n) {
    return static_cast<uint32_t>((static_cast<uint64_t>(NextBits()) * n) >> 32);
  }

 private:
  PhiloxKey key_;
  uint64_t stream_;
  uint64_t counter_ = 0;
  PhiloxBlock block_{};
  int used_ = 4;
};

}  // namespace psgd
