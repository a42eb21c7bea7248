// int8 and qsgd on a device, in one pass. See compression/dense/quantized.h.
#pragma once

#include "compression/cuda/block_tiles.h"
#include "compression/cuda/code_planes.h"
#include "compression/dense/quantized.h"

namespace psgd::cuda {

struct QuantizedBody {
  static constexpr uint32_t kLeastResident = 6;  // measured: 4 take longer
  struct Shared {
    alignas(sizeof(Four)) float tile[kTile];
    alignas(sizeof(Four)) uint32_t codes[kTile / 4];  // bytes
    uint32_t largest[kMostTeams * kLanes];
    double squares[kMostTeams * kLanes];
    float unit[kMostTeams], inverse[kMostTeams];
  };
  BlockTiles tiles;
  QuantizedTwin options;
  PhiloxKey key;
  uint64_t step;
  std::byte* payload;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const auto top = static_cast<float>(LargestLevel(options.bits));
    block.Once([&] {
      if (block.index() == 0) StoreHeader();
    });
    tiles.ForEachTile(block, false, nullptr, shared.tile, [&](size_t begin, uint32_t count) {
      tiles.ForEachLane(block, begin, count, [&](const TileLane& lane) { Measure(lane, shared); });
    });
    tiles.ForEachTeam(block, [&](uint32_t b, uint32_t team) {
      shared.unit[team] = QuantizedUnit(SizeOf(team, shared), top);
      shared.inverse[team] = InverseUnit(shared.unit[team]);
      uint16_t* const units = reinterpret_cast<uint16_t*>(payload + HeaderBytes());
      units[b] = CoarseBits(shared.unit[team]);
    });
    tiles.ForEachTile(block, true, nullptr, shared.tile, [&](size_t begin, uint32_t count) {
      // Each thread has eight elements of a group of 32: those whose random bits one draw gives.
      const uint32_t parts = (count + kRandomGroup - 1) / kRandomGroup * 4;
      block.ForEach(parts, [&](size_t part) {
        const auto from = static_cast<uint32_t>(part / 4 * kRandomGroup + part % 4 * 4);
        Send(begin, from, count, top, shared);
      });
      if (options.packed) {
        uint16_t* const out = reinterpret_cast<uint16_t*>(payload + CodesAt());
        PackPlanes(block, shared.codes, count, options.bits,
                   out + begin / kCodeGroup * options.bits);
      } else {
        std::byte* const out = payload + CodesAt() + begin;
        block.ForEach((count + 3) / 4, [&](size_t w) {
          const auto left = count - static_cast<uint32_t>(w) * 4;
          StoreBytes(out + w * 4, shared.codes[w], left < 4 ? left : 4);
        });
      }
    });
  }

 private:
  PS_HD void Measure(const TileLane& lane, Shared& shared) const {
    uint32_t largest = lane.first ? 0 : shared.largest[lane.index];
    double squares = lane.first ? 0 : shared.squares[lane.index];
    for (uint32_t i = lane.begin; i < lane.end; i += kLanes) {
      const float value = shared.tile[i];
      largest = Larger(largest, MagnitudeBits(value));
      if (options.l2) squares += static_cast<double>(value) * value;
    }
    shared.largest[lane.index] = largest;
    shared.squares[lane.index] = squares;
  }

  PS_HD double SizeOf(uint32_t team, const Shared& shared) const {
    double squares = 0;
    uint32_t largest = 0;
    for (uint32_t at = team * kLanes; at < (team + 1) * kLanes; ++at) {
      squares += shared.squares[at];
      largest = Larger(largest, shared.largest[at]);
    }
    return options.l2 ? std::sqrt(squares) : std::bit_cast<float>(largest);
  }

  // Sends the four elements from `from` on, and the four half a group later. The tile begins at
  // element `begin`.
  PS_HD void Send(size_t begin, uint32_t from, uint32_t count, float top, Shared& shared) const {
    const uint32_t team = from / tiles.size;
    const float unit = shared.unit[team], inverse = shared.inverse[team];
    const bool spoilt = !(unit == unit);  // then all codes are 0
    PhiloxBlock random = {};
    if (options.stochastic) {
      random = Philox(key, RandomWordOf(static_cast<uint32_t>(begin + from)) / 4, step);
    }
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t at = from + half * kRandomGroup / 2;
      const uint32_t own = at >= count ? 0 : count - at < 4 ? count - at : 4;
      Four left;
      uint32_t codes = 0;
      for (uint32_t k = 0; k < 4; ++k) {
        const bool sent = k < own && !spoilt;
        const float value = sent ? shared.tile[at + k] : 0;
        const float part = options.stochastic ? RandomPartOf(random.word[k], half != 0) : 0.5f;
        const int level = LevelOf(value, inverse, part, top);
        // As on the host, a spoilt group keeps its numbers.
        left.at[k] =
            spoilt && k < own ? shared.tile[at + k] : value - unit * static_cast<float>(level);
        const int code = options.packed ? level + LargestLevel(options.bits) : level;
        codes |= sent ? uint32_t{static_cast<uint8_t>(code)} << (8 * k) : 0;
      }
      shared.codes[at / 4] = codes;
      if (tiles.source.residual == nullptr) continue;
      float* const residual = tiles.source.residual + begin + at;
      if (own == 4) {
        StoreFour(residual, left, Whole());
      } else {
        StoreFour(residual, left, own);
      }
    }
  }

  PS_HD size_t HeaderBytes() const { return options.packed ? 8 : 4; }
  PS_HD size_t CodesAt() const { return HeaderBytes() + tiles.blocks * sizeof(uint16_t); }
  PS_HD void StoreHeader() const {
    uint32_t* words = reinterpret_cast<uint32_t*>(payload);
    words[0] = options.block;
    if (options.packed) words[1] = options.bits;
  }
};

template <typename Queue>
class CoderOf<QuantizedTwin, Queue> final : public Coder<Queue> {
 public:
  CoderOf(const QuantizedTwin& options, uint32_t elements)
      : options_(options),
        elements_(elements),
        blocks_((elements + options.block - 1) / options.block) {}

  size_t Bound(uint64_t) const override {
    const size_t groups = (elements_ + kCodeGroup - 1) / kCodeGroup;
    const size_t codes = options_.packed ? groups * 2 * options_.bits : elements_;
    return (options_.packed ? 8 : 4) + blocks_ * sizeof(uint16_t) + codes;
  }
  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    const BlockTiles tiles = TilesOfBlocks(input.source, elements_, options_.block);
    queue.Launch(tiles.launched(),
                 QuantizedBody{tiles, options_, input.key, input.step, output.payload});
  }

 private:
  const QuantizedTwin options_;
  const uint32_t elements_;
  const uint32_t blocks_;
};

}  // namespace psgd::cuda
