// The passes that choose entries; see chosen.h.
#pragma once

#include <algorithm>

#include "compression/cuda/chosen.h"

namespace psgd::cuda {

// Chosen entries of a slice, in device memory.
struct Entries {
  const uint32_t* indices = nullptr;  // ascending
  const uint32_t* found = nullptr;    // how many there are
  uint32_t room = 0;                  // how many there may be

  PS_HD uint32_t count() const { return *found; }
};

// The most elements that ChooseLargest may choose; see LargestSelector::Select.
inline uint32_t MostChosen(uint32_t keep, bool sampled, uint32_t elements) {
  const bool guess = sampled && WorthSampling(keep, elements);
  return guess ? static_cast<uint32_t>(MostOf(keep)) : keep;
}

template <typename Queue>
Chosen* NewChosen(Queue& queue) {
  Chosen* const chosen = queue.template Scratch<Chosen>(1);
  queue.Zero(chosen, 1);
  return chosen;
}

// Makes the numbers and chooses those that reach `least`.
template <typename Queue, typename Maker>
Entries ChooseReaching(Queue& queue, const Maker& maker, uint32_t elements, uint32_t least) {
  uint32_t* const found = queue.template Scratch<uint32_t>(1);
  queue.Zero(found, 1);
  uint32_t* const indices = queue.template Scratch<uint32_t>(elements);
  ListNumbers(queue, elements, MakeReaching<Maker>{maker, elements, least, indices, found});
  return {indices, found, elements};
}

// Chooses the `keep` largest candidates, or what a sample has settled: at most `most`. REQUIRES:
// all numbers are made.
template <typename Queue, typename Maker>
Entries ChooseAmong(Queue& queue, const Candidates<Maker>& candidates, uint32_t keep,
                    uint32_t most) {
  constexpr uint32_t kCountingBlocks = 128;  // each adds its bins to the common bins
  CutState* const state = queue.template Scratch<CutState>(1);
  queue.Zero(state, 1);
  queue.Launch(std::min(TilesOf(candidates.elements), kCountingBlocks),
               CutBody<Maker>{candidates, keep, state});
  uint32_t* const indices = queue.template Scratch<uint32_t>(most);
  ListNumbers(queue, candidates.elements, PickChosen<Maker>{candidates, indices});
  return {indices, &candidates.chosen->count, most};
}

// Whether a list of candidates pays: a good guess lists little more than `keep`. A small slice
// needs no list, but with one it shares the launches of large slices. dgc's scratch memory must be
// largest at its first or last step (see TwinEncoder::TakeMemory). The first step keeps at least a
// quarter, so the limit for lists is above a quarter.
inline bool WorthListing(uint32_t keep, uint32_t elements) { return keep <= elements / 3; }

// Makes the numbers and chooses the `keep` largest; `sampled`: as Selection::kSampled. REQUIRES:
// keep <= elements; keep > 0 or there are no elements.
template <typename Queue, typename Maker>
Entries ChooseLargest(Queue& queue, const Maker& maker, uint32_t elements, uint32_t keep,
                      bool sampled) {
  if (keep == elements) return ChooseReaching(queue, maker, elements, 0);
  sampled = sampled && WorthSampling(keep, elements);
  Candidates<Maker> candidates = {maker, elements, NewChosen(queue)};
  if (WorthListing(keep, elements)) {
    // A small slice has no sample. Its guess is 0, which all numbers reach.
    SamplePlan plan;
    uint32_t* bins = nullptr;
    if (elements >= kLeastSampled) {
      plan = PlanSample(elements, keep, !sampled);
      bins = queue.template Scratch<uint32_t>(kSampleBins);
      queue.Zero(bins, kSampleBins);
    }
    queue.Launch(BlocksFor(plan.runs * kSampleRun),
                 SampleBody<Maker>{maker, plan, bins, candidates.chosen});
    // A guess that lets in more is a bad one.
    const uint32_t room = std::min(elements, 2 * keep + kScanChunk);
    candidates.indices = queue.template Scratch<uint32_t>(room);
    candidates.values = queue.template Scratch<float>(room);
    ListNumbers(queue, elements, MakeCandidates<Maker>{candidates, room, keep, sampled});
  } else {
    queue.Launch(TilesOf(elements), MakeBody<Maker>{maker, elements});
  }
  return ChooseAmong(queue, candidates, keep, MostChosen(keep, sampled, elements));
}

}  // namespace psgd::cuda
