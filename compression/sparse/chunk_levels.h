// The few levels of a chunk's magnitudes, and the room of a payload's parts; see chunked.h. No
// Abseil: nvcc reads this.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "common/host_device.h"
#include "compression/coarse.h"
#include "compression/dense/quantized.h"

namespace psgd {

inline constexpr uint32_t kLeastChunk = 64, kMostChunk = 65536;  // elements
inline constexpr size_t kChunkedHeaderBytes = 8;
inline constexpr size_t kChunkRangeBytes = 4;
inline constexpr int kLevelFits = 2;

// Most values that a chunk of `count` elements sends. REQUIRES: 0 < keep <= chunk; 0 < count <=
// chunk.
PS_HD inline uint32_t KeptOfChunk(uint32_t keep, uint32_t chunk, uint32_t count) {
  const auto share = static_cast<uint32_t>((uint64_t{keep} * count + chunk / 2) / chunk);
  return share < 1 ? 1 : share;
}

PS_HD inline size_t ChunksOf(size_t elements, uint32_t chunk) {
  return (elements + chunk - 1) / chunk;
}

// Bytes of the codes of `count` values.
PS_HD inline size_t LevelCodeBytes(size_t count, uint32_t bits) {
  return (count + kCodeGroup - 1) / kCodeGroup * 2 * bits;
}

// The least and the largest level. REQUIRES, unless it is NaN: 0 <= low <= high.
struct ChunkRange {
  float low = 0;
  float high = 0;
};

// As it travels: the upper halves of both levels.
PS_HD inline uint32_t RangeBits(const ChunkRange& range) {
  return CoarseBits(range.low) | uint32_t{CoarseBits(range.high)} << 16;
}
PS_HD inline ChunkRange RangeFromBits(uint32_t bits) {
  return {FromCoarseBits(static_cast<uint16_t>(bits)),
          FromCoarseBits(static_cast<uint16_t>(bits >> 16))};
}

// Levels at equal distances. Each has 8 significant bits (coarse.h).
class ChunkLevels {
 public:
  PS_HD ChunkLevels(const ChunkRange& range, uint32_t bits)
      : low_(range.low), top_(static_cast<float>(LargestLevel(bits))) {
    constexpr float kLeast = 0x1p-100f;  // of a difference whose inverse is finite
    const float spread = range.high - range.low;
    step_ = spread / top_;
    inverse_ = spread >= kLeast ? top_ / spread : 0;
  }

  // Returns the number of the nearest level.
  PS_HD uint32_t Nearest(float magnitude) const {
    const float place = (magnitude - low_) * inverse_ + 0.5f;
    if (!(place >= 1)) return 0;
    return static_cast<uint32_t>(place < top_ ? place : top_);
  }
  PS_HD float Magnitude(uint32_t level) const {
    return RoundCoarse(low_ + step_ * static_cast<float>(level));
  }

  PS_HD float low() const { return low_; }
  PS_HD float top() const { return top_; }
  PS_HD float inverse() const { return inverse_; }

 private:
  float low_;
  float top_;
  float step_;
  float inverse_;
};

// A code is a level, and above it a bit that is set for negative values.
PS_HD inline uint32_t LevelCode(const ChunkLevels& levels, uint32_t bits, float value) {
  return levels.Nearest(std::fabs(value)) | uint32_t{std::signbit(value)} << (bits - 1);
}
PS_HD inline float LevelValue(const ChunkLevels& levels, uint32_t bits, uint32_t code) {
  const float magnitude = levels.Magnitude(code & static_cast<uint32_t>(LargestLevel(bits)));
  return code >> (bits - 1) != 0 ? -magnitude : magnitude;
}

// Sums over values and their levels, in lanes (lanes.h), to fit better levels.
struct LevelSums {
  double levels = 0;
  double squares = 0;  // of levels
  double magnitudes = 0;
  double products = 0;

  PS_HD void Add(uint32_t level, float magnitude) {
    levels += level;
    squares += static_cast<double>(level) * level;
    magnitudes += magnitude;
    products += static_cast<double>(level) * magnitude;
  }
  PS_HD void Add(const LevelSums& lane) {
    levels += lane.levels;
    squares += lane.squares;
    magnitudes += lane.magnitudes;
    products += lane.products;
  }
};

// Returns the range whose levels have the least squared distance to the magnitudes, if each
// magnitude keeps its level. REQUIRES: count > 0; magnitudes are finite.
PS_HD inline ChunkRange FitLevels(const LevelSums& sums, uint32_t count, uint32_t bits) {
  constexpr double kMost = std::numeric_limits<float>::max();
  const double n = count, spread = n * sums.squares - sums.levels * sums.levels;
  double step = spread > 0 ? (n * sums.products - sums.levels * sums.magnitudes) / spread : 0;
  if (step < 0) step = 0;
  double low = (sums.magnitudes - step * sums.levels) / n;
  if (low < 0) {
    low = 0;
    step = sums.products / sums.squares;
  }
  const double high = low + step * LargestLevel(bits);
  return {static_cast<float>(low < kMost ? low : kMost),
          static_cast<float>(high < kMost ? high : kMost)};
}

}  // namespace psgd
