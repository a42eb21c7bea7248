// onebit on a device, in one pass. A team of threads encodes one block of elements. See
// compression/dense/onebit.h.
#pragma once

#include "compression/coarse.h"
#include "compression/cuda/coder.h"
#include "compression/cuda/signs.h"

namespace psgd::cuda {

struct OnebitBody {
  struct Shared {
    SplitLanes lanes;
    float high[kTeams];
    float low[kTeams];
  };
  Source source;
  uint32_t elements;
  uint32_t block_elements;
  uint32_t blocks;  // blocks of elements, not of threads
  std::byte* payload;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const uint32_t first = block.index() * kTeams;
    block.Each([&](uint32_t thread) {
      const uint32_t b = first + thread / kLanes;
      if (thread == 0 && b == 0) *reinterpret_cast<uint32_t*>(payload) = block_elements;
      if (b < blocks) SplitLane(source, Begin(b), Count(b), thread, &shared.lanes);
    });
    block.Each([&](uint32_t thread) {
      const uint32_t b = first + thread;
      if (thread >= kTeams || b >= blocks) return;
      const SplitSums sums = FoldSplit(source, Begin(b), Count(b), shared.lanes, thread);
      shared.high[thread] = CoarseMean(sums.positive, sums.positives);
      shared.low[thread] = CoarseMean(sums.negative, Count(b) - sums.positives);
      reinterpret_cast<uint32_t*>(payload)[1 + b] =
          CoarseBits(shared.high[thread]) | uint32_t{CoarseBits(shared.low[thread])} << 16;
    });
    block.Each([&](uint32_t thread) {
      const uint32_t team = thread / kLanes, b = first + team;
      if (b >= blocks) return;
      std::byte* bits = payload + sizeof(uint32_t) * (1 + size_t{blocks}) + Begin(b) / 8;
      for (size_t i = thread % kLanes; i < BitBytes(Count(b)); i += kLanes) {
        bits[i] = SendSigns(source, Begin(b), i, Count(b), shared.high[team], shared.low[team]);
      }
    });
  }

 private:
  PS_HD size_t Begin(uint32_t b) const { return size_t{b} * block_elements; }
  PS_HD size_t Count(uint32_t b) const {
    const size_t left = elements - Begin(b);
    return left < block_elements ? left : block_elements;
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
    queue.Launch(blocks_ == 0 ? 1 : (blocks_ + kTeams - 1) / kTeams,
                 OnebitBody{input.source, elements_, block_, blocks_, output.payload});
  }

 private:
  const uint32_t block_;
  const uint32_t elements_;
  const uint32_t blocks_;
};

}  // namespace psgd::cuda
