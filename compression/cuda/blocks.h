// blocks on a device: computes the norms of blocks and chooses the largest, as topk chooses
// elements. See compression/sparse/blocks.h.
#pragma once

#include "compression/cuda/block_tiles.h"
#include "compression/cuda/rice_codes.h"
#include "compression/sparse/block_norm.h"
#include "compression/sparse/density_count.h"

namespace psgd::cuda {

// The norms to choose from. A block of zeros is never chosen.
struct NormMaker {
  static constexpr bool kChoosesZeros = false;
  Source norms;
  PS_HD Source In() const { return norms; }
  PS_HD void Keep(size_t, Four&, uint32_t) const {}
  PS_HD Source Out() const { return norms; }
  PS_HD float Corrected(size_t i) const { return norms.gradient[i]; }
  PS_HD float Made(size_t i) const { return norms.gradient[i]; }
};

// Makes the elements of the blocks and computes their norms.
struct NormsBody {
  struct Shared {
    alignas(sizeof(Four)) float tile[kTile];
    double squares[kMostTeams * kLanes];
  };
  BlockTiles tiles;
  float* norms;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    tiles.ForEachTile(block, false, tiles.source.residual, shared.tile,
                      [&](size_t begin, uint32_t count) {
                        tiles.ForEachLane(block, begin, count, [&](const TileLane& lane) {
                          double squares = lane.first ? 0 : shared.squares[lane.index];
                          for (uint32_t i = lane.begin; i < lane.end; i += kLanes) {
                            const double value = shared.tile[i];
                            squares += value * value;
                          }
                          shared.squares[lane.index] = squares;
                        });
                      });
    tiles.ForEachTeam(block, [&](uint32_t b, uint32_t team) {
      double squares = 0;
      for (uint32_t lane = 0; lane < kLanes; ++lane)
        squares += shared.squares[team * kLanes + lane];
      norms[b] = NormOfBlock(squares);
    });
  }
};

struct BlocksPlanBody {
  using Shared = Nothing;
  EntriesView entries;
  uint32_t elements;
  uint32_t block_elements;
  RicePlan* plan;
  CoderOutput output;

  PS_HD void operator()(const Block& block, Shared&) const {
    block.Once([&] {
      const uint32_t count = entries.count();
      // All blocks have the same length, except the slice's last.
      uint32_t sent = count * block_elements;
      if (count > 0) {
        const uint64_t end = (entries.indices[count - 1] + uint64_t{1}) * block_elements;
        if (end > elements) sent -= static_cast<uint32_t>(end - elements);
      }
      plan->coded = 1;
      plan->codes_at = static_cast<uint32_t>(kBlocksHeaderBytes + sent * sizeof(float));
      const uint64_t bits = ChooseLowBits(entries, plan);
      uint32_t* header = reinterpret_cast<uint32_t*>(output.payload);
      header[0] = count;
      header[1] = plan->low_bits;
      header[2] = block_elements;
      header[3] = sent;
      *output.bytes = plan->codes_at + (bits + 7) / 8;
    });
  }
};

struct BlockValuesBody {
  using Shared = Nothing;
  Source source;
  EntriesView entries;
  uint32_t elements;
  uint32_t block_elements;
  size_t room;  // number of values
  float* values;

  PS_HD void operator()(const Block& block, Shared&) const {
    const uint32_t count = entries.count();
    block.ForAll(room, [&](size_t i) {
      if (i / block_elements >= count) return;
      const size_t from =
          size_t{entries.indices[i / block_elements]} * block_elements + i % block_elements;
      if (from >= elements) return;
      values[i] = source.Made(from);
      if (source.residual != nullptr) source.residual[from] = 0;
    });
  }
};

template <typename Queue>
class CoderOf<BlocksTwin, Queue> final : public Coder<Queue> {
 public:
  CoderOf(const BlocksTwin& options, uint32_t elements)
      : block_(options.block),
        elements_(elements),
        blocks_((elements + options.block - 1) / options.block),
        keep_(static_cast<uint32_t>(CountAt(options.density, blocks_))) {}

  size_t Bound(uint64_t) const override {
    return kBlocksHeaderBytes + ValuesRoom() * sizeof(float) + RiceBound(keep_, blocks_);
  }
  bool varies() const override { return true; }
  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    float* norms = queue.template Scratch<float>(blocks_);
    const BlockTiles tiles = TilesOfBlocks(input.source, elements_, block_);
    queue.Launch(tiles.launched(), NormsBody{tiles, norms});
    const Entries chosen =
        ChooseLargest(queue, NormMaker{{.gradient = norms}}, blocks_, keep_, false);
    const EntriesView entries = {chosen.indices, chosen.chosen};
    queue.Zero(reinterpret_cast<uint32_t*>(output.payload), (Bound(0) + 3) / 4);
    RicePlan* plan = MeasureGaps(queue, entries, keep_);
    queue.Launch(1, BlocksPlanBody{entries, elements_, block_, plan, output});
    queue.Launch(BlocksFor(ValuesRoom()),
                 BlockValuesBody{input.source, entries, elements_, block_, ValuesRoom(),
                                 reinterpret_cast<float*>(output.payload + kBlocksHeaderBytes)});
    LaunchCodes(queue, entries, keep_, plan, output.payload);
  }

 private:
  size_t ValuesRoom() const { return std::min<size_t>(elements_, size_t{keep_} * block_); }

  const uint32_t block_;
  const uint32_t elements_;
  const uint32_t blocks_;  // blocks of elements in the slice
  const uint32_t keep_;    // blocks to send
};

}  // namespace psgd::cuda
