// sign and signum on a device. See compression/dense/sign.h and signum.h.
#pragma once

#include "compression/coarse.h"
#include "compression/cuda/coder.h"
#include "compression/cuda/signs.h"

namespace psgd::cuda {

// Sums magnitudes by stretches of kSignStretch elements.
template <typename Use>
struct MagnitudesBody {
  struct Shared {
    alignas(sizeof(Four)) float tile[kTile];
    SplitLanes lanes;
    typename PartSums<Use>::Shared fold;
  };
  BlockTiles stretches;
  PartSums<Use> sums;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const Source& source = stretches.source;
    stretches.ForEachTile(
        block, false, source.residual, shared.tile, [&](size_t begin, uint32_t count) {
          stretches.ForEachLane(block, begin, count,
                                [&](const TileLane& lane) { shared.lanes.Add(lane, shared.tile); });
        });
    stretches.ForEachTeam(block, [&](uint32_t s, uint32_t team) {
      const SplitSums split =
          FoldSplit(source.AsMade(), stretches.Begin(s), stretches.Count(s), shared.lanes, team);
      sums.part[s] = split.positive - split.negative;
    });
    sums.Fold(block, stretches.blocks, shared.fold);
  }
};

struct UseAsMagnitude {
  float* payload;
  uint32_t elements;
  PS_HD void operator()(double sum) const { *payload = CoarseMean(sum, elements); }
};

struct SendSignBits {
  struct Shared {
    alignas(sizeof(Four)) float tile[kTile];
  };
  Source source;
  uint32_t elements;
  float* payload;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const size_t begin = size_t{block.index()} * kTile;
    const SignPair sent = {*payload, -*payload};
    ReadTile(block, source.AsMade(), begin, elements, nullptr, shared.tile);
    SendSigns(block, shared.tile, TileLength(begin, elements),
              source.residual == nullptr ? nullptr : source.residual + begin,
              reinterpret_cast<uint32_t*>(payload + 1) + begin / 32,
              [&](uint32_t) { return sent; });
  }
};

template <typename Queue>
class CoderOf<SignTwin, Queue> final : public Coder<Queue> {
 public:
  CoderOf(const SignTwin&, uint32_t elements) : elements_(elements) {}

  size_t Bound(uint64_t) const override { return sizeof(float) + BitBytes(elements_); }
  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    const BlockTiles stretches = TilesOfBlocks(input.source, elements_, kSignStretch);
    float* payload = reinterpret_cast<float*>(output.payload);
    queue.Launch(stretches.launched(), MagnitudesBody<UseAsMagnitude>{
                                           stretches, NewSums(queue, stretches.blocks,
                                                              UseAsMagnitude{payload, elements_})});
    queue.Launch(TilesOf(elements_), SendSignBits{input.source, elements_, payload});
  }

 private:
  const uint32_t elements_;
};

struct SendMomentumSigns {
  using Shared = SendSignBits::Shared;
  Source source;  // its residual is the mean
  uint32_t elements;
  uint64_t step;
  uint32_t* words;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const size_t begin = size_t{block.index()} * kTile;
    ReadTile(block, source, begin, elements, source.residual, shared.tile);
    block.Bits(
        TileLength(begin, elements),
        [&](uint32_t i) {
          const float mean = shared.tile[i];
          return mean == 0 ? (begin + i + step) % 2 == 1 : mean > 0;
        },
        [&](uint32_t w, uint32_t bits) { words[begin / 32 + w] = bits; });
  }
};

template <typename Queue>
class CoderOf<SignumTwin, Queue> final : public Coder<Queue> {
 public:
  CoderOf(const SignumTwin& twin, uint32_t elements)
      : momentum_(twin.momentum), elements_(elements) {}

  size_t Bound(uint64_t) const override { return BitBytes(elements_); }
  void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) override {
    Source source = input.source;
    source.residual = input.state;
    source.residual_decay = momentum_;
    source.scale = 1 - momentum_;
    queue.Launch(TilesOf(elements_),
                 SendMomentumSigns{source, elements_, input.step,
                                   reinterpret_cast<uint32_t*>(output.payload)});
  }

 private:
  const float momentum_;
  const uint32_t elements_;
};

}  // namespace psgd::cuda
