// blocks on a device: computes the norms of blocks and chooses the largest, as topk chooses
// elements. See compression/sparse/blocks.h.
#pragma once

#include "compression/cuda/block_tiles.h"
#include "compression/cuda/rice_codes.h"
#include "compression/sparse/block_norm.h"
#include "compression/sparse/density_count.h"

namespace psgd::cuda {

// The norms to choose from, once they are made.
struct NormMaker {
  Source norms;
  PS_HD Source Out() const { return norms; }
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

// Writes values and header, and plans the codes.
struct BlocksBody {
  using Shared = RicePlanner::Shared;
  Source source;
  RicePlanner planner;
  uint32_t elements;
  uint32_t block_elements;
  CoderOutput output;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const uint32_t count = planner.entries.count();
    // All blocks have the same length, except the slice's last.
    uint32_t sent = count * block_elements;
    if (count > 0) {
      const uint64_t end = (planner.entries.indices[count - 1] + uint64_t{1}) * block_elements;
      if (end > elements) sent -= static_cast<uint32_t>(end - elements);
    }
    float* const values = reinterpret_cast<float*>(output.payload + kBlocksHeaderBytes);
    block.ForAll(sent, [&](size_t i) {
      const size_t from =
          size_t{planner.entries.indices[i / block_elements]} * block_elements + i % block_elements;
      values[i] = source.Made(from);
      if (source.residual != nullptr) source.residual[from] = 0;
    });
    const size_t codes_at = kBlocksHeaderBytes + sent * sizeof(float);
    planner.Plan(block, true, codes_at, output, shared, [&](uint32_t low_bits) {
      uint32_t* header = reinterpret_cast<uint32_t*>(output.payload);
      header[0] = count;
      header[1] = low_bits;
      header[2] = block_elements;
      header[3] = sent;
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
    const Candidates<NormMaker> candidates = {{{.gradient = norms}}, blocks_, NewChosen(queue)};
    const RicePlanner planner = NewPlanner(queue, ChooseAmong(queue, candidates, keep_, keep_));
    queue.Launch(EntryBlocks(ValuesRoom()),
                 BlocksBody{input.source, planner, elements_, block_, output});
    LaunchCodes(queue, planner, output.payload);
  }

 private:
  size_t ValuesRoom() const { return std::min<size_t>(elements_, size_t{keep_} * block_); }

  const uint32_t block_;
  const uint32_t elements_;
  const uint32_t blocks_;  // blocks of elements in the slice
  const uint32_t keep_;    // blocks to send
};

}  // namespace psgd::cuda
