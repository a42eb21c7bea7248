// Blocks of elements that have a scale each, on a device. A block of threads takes as many whole
// blocks of elements as fit into a tile in shared memory. If a block of elements does not fit, the
// threads read it tile by tile, each time that they need its numbers.
#pragma once

#include "compression/cuda/coder.h"
#include "compression/cuda/sums.h"

namespace psgd::cuda {

inline constexpr uint32_t kMostTeams = 32;  // blocks of elements that a block of threads has

// A phase: reads a tile's numbers. If `keep` is not null, it gets them, too.
PS_HD inline void ReadTile(const Block& block, const Source& source, size_t begin, size_t end,
                           float* keep, float* tile) {
  block.Each([&](uint32_t thread) {
    ForRuns<kTile>(source, begin, end, thread, [&](size_t i, const Four& values, auto count) {
      StoreShared(tile + (i - begin), values, count);
      if (keep != nullptr) StoreFour(keep + i, values, count);
    });
  });
}

// What a lane adds up of a tile: numbers begin, begin + kLanes, ... below `end`.
struct TileLane {
  uint32_t index;  // team * kLanes + lane
  uint32_t begin, end;
  bool first;  // of the tiles of its block of elements
};

struct BlockTiles {
  Source source;
  uint32_t elements;
  uint32_t size;    // of a block of elements
  uint32_t blocks;  // of elements

  // Blocks of elements that a block of threads has.
  PS_HD uint32_t teams() const {
    const uint32_t most = size < kTile ? kTile / size : 1;
    return most < kMostTeams ? most : kMostTeams;
  }
  // Blocks of threads, at least one.
  uint32_t launched() const { return blocks == 0 ? 1 : (blocks + teams() - 1) / teams(); }

  PS_HD uint32_t FirstBlock(const Block& block) const { return block.index() * teams(); }
  PS_HD size_t Begin(uint32_t b) const { return size_t{b} * size; }
  PS_HD size_t Count(uint32_t b) const {
    const size_t left = elements - Begin(b);
    return left < size ? left : size;
  }

  // Phases: reads each tile, unless `again` and it is still there, and calls f(begin, count) for
  // its elements. `keep` is as for ReadTile.
  template <typename F>
  PS_HD void ForEachTile(const Block& block, bool again, float* keep, float* tile, F f) const {
    const size_t first = Begin(FirstBlock(block)), most = first + size_t{teams()} * size;
    const size_t end = most < elements ? most : elements;
    for (size_t begin = first; begin < end; begin += kTile) {
      if (!again || size > kTile) ReadTile(block, source, begin, end, keep, tile);
      f(begin, static_cast<uint32_t>(end - begin < kTile ? end - begin : kTile));
    }
  }

  // A phase: f(lane) for each lane of each team, in a tile from element `begin` on.
  template <typename F>
  PS_HD void ForEachLane(const Block& block, size_t begin, uint32_t count, F f) const {
    const uint32_t own = size < count ? size : count;
    const bool first = begin == Begin(FirstBlock(block));
    block.ForEach(size_t{teams()} * kLanes, [&](size_t at) {
      const auto index = static_cast<uint32_t>(at);
      const auto lane = static_cast<uint32_t>(at % kLanes),
                 team = static_cast<uint32_t>(at / kLanes);
      const uint32_t end = (team + 1) * own;
      f(TileLane{index, team * own + lane, end < count ? end : count, first});
    });
  }

  // A phase: f(b, team) for each block of elements.
  template <typename F>
  PS_HD void ForEachTeam(const Block& block, F f) const {
    block.Each([&](uint32_t thread) {
      const uint32_t b = FirstBlock(block) + thread;
      if (thread < teams() && b < blocks) f(b, thread);
    });
  }
};

inline BlockTiles TilesOfBlocks(const Source& source, uint32_t elements, uint32_t size) {
  return {source, elements, size, (elements + size - 1) / size};
}

}  // namespace psgd::cuda
