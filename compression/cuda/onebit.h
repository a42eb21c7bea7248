// onebit on a device, in one pass. See compression/dense/onebit.h.
#pragma once

#include "compression/coarse.h"
#include "compression/cuda/block_tiles.h"
#include "compression/cuda/signs.h"

namespace psgd::cuda {

struct OnebitBody {
  static constexpr uint32_t kLeastResident = 6;  // measured: 4 take longer
  static constexpr uint32_t kUnit = 64;          // divides each block
  struct Shared {
    alignas(sizeof(Four)) float tile[kTile];
    SplitLanes lanes;
    SignPair means[kMostTeams];
    uint8_t team[kTile / kUnit];  // of these elements
  };
  BlockTiles tiles;
  std::byte* payload;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    uint32_t* const words = reinterpret_cast<uint32_t*>(payload);
    block.Each([&](uint32_t thread) {
      if (thread == 0 && block.index() == 0) words[0] = tiles.size;
      if (thread >= kTile / kUnit) return;
      const uint32_t team = thread * kUnit / tiles.size;
      shared.team[thread] = static_cast<uint8_t>(team);
    });
    tiles.ForEachTile(block, false, nullptr, shared.tile, [&](size_t begin, uint32_t count) {
      tiles.ForEachLane(block, begin, count,
                        [&](const TileLane& lane) { shared.lanes.Add(lane, shared.tile); });
    });
    tiles.ForEachTeam(block, [&](uint32_t b, uint32_t team) {
      const SplitSums sums =
          FoldSplit(tiles.source, tiles.Begin(b), tiles.Count(b), shared.lanes, team);
      const SignPair means = {CoarseMean(sums.positive, sums.positives),
                              CoarseMean(sums.negative, tiles.Count(b) - sums.positives)};
      shared.means[team] = means;
      words[1 + b] = CoarseBits(means.high) | uint32_t{CoarseBits(means.low)} << 16;
    });
    float* const residual = tiles.source.residual;
    tiles.ForEachTile(block, true, nullptr, shared.tile, [&](size_t begin, uint32_t count) {
      SendSigns(block, shared.tile, count, residual == nullptr ? nullptr : residual + begin,
                words + 1 + tiles.blocks + begin / 32,
                [&](uint32_t i) { return shared.means[shared.team[i / kUnit]]; });
    });
  }
};

template <typename Queue>
class CoderOf<OnebitTwin, Queue> final : public Coder<Queue> {
 public:
  CoderOf(const OnebitTwin& twin, uint32_t elements)
      : block_(twin.block),
        elements_(elements),
        blocks_((elements + twin.block - 1) / twin.block) {}

  size_t Bound(uint64_t) const override {
    return sizeof(uint32_t) * (1 + size_t{blocks_}) + BitBytes(elements_);
  }
  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    const BlockTiles tiles = TilesOfBlocks(input.source, elements_, block_);
    queue.Launch(tiles.launched(), OnebitBody{tiles, output.payload});
  }

 private:
  const uint32_t block_;
  const uint32_t elements_;
  const uint32_t blocks_;
};

}  // namespace psgd::cuda
