// The passes that choose entries; see chosen.h.
#pragma once

#include <algorithm>

#include "compression/cuda/chosen.h"
#include "compression/cuda/scan.h"

namespace psgd::cuda {

// The most elements that ChooseLargest may choose; see LargestSelector::Select.
inline uint32_t MostChosen(uint32_t keep, bool sampled, uint32_t elements) {
  const bool guess = sampled && WorthSampling(keep, elements);
  return guess ? static_cast<uint32_t>(MostOf(keep)) : keep;
}

template <typename Queue, typename Maker>
void ListChosen(Queue& queue, const Maker& maker, bool zeros, Entries* entries) {
  entries->indices = queue.template Scratch<uint32_t>(entries->room);
  Select(queue, entries->elements, ChosenFlag<Maker>{maker, entries->chosen, zeros},
         entries->indices, &entries->chosen->count);
}

template <typename Queue, typename Maker>
Entries ChooseReaching(Queue& queue, const Maker& maker, uint32_t elements, uint32_t least) {
  Entries entries = {nullptr, queue.template Scratch<Chosen>(1), elements, elements};
  queue.Zero(entries.chosen, 1);
  queue.Launch(TilesOf(elements), MakeBody<Maker>{maker, elements, entries.chosen, nullptr});
  queue.Launch(1, JudgeBody{entries.chosen, elements, false, true, least});
  ListChosen(queue, maker, Maker::kChoosesZeros, &entries);
  return entries;
}

// Chooses the `keep` largest; `sampled`: as Selection::kSampled. REQUIRES: 0 < keep <= elements.
template <typename Queue, typename Maker>
Entries ChooseLargest(Queue& queue, const Maker& maker, uint32_t elements, uint32_t keep,
                      bool sampled) {
  if (keep == elements) return ChooseReaching(queue, maker, elements, 0);
  sampled = sampled && WorthSampling(keep, elements);
  Entries entries = {nullptr, queue.template Scratch<Chosen>(1),
                     MostChosen(keep, sampled, elements), elements};
  Chosen* chosen = entries.chosen;
  // Taken without a sample, too: then no step takes more memory than the first, which keeps most.
  uint32_t* const samples = queue.template Scratch<uint32_t>(kSampleBins);
  queue.Zero(chosen, 1);
  if (sampled) {
    const SamplePlan plan = PlanSample(elements, keep, false);
    queue.Zero(samples, kSampleBins);
    queue.Launch(BlocksFor(plan.runs * kSampleRun), SampleBody<Maker>{maker, plan, samples});
    queue.Launch(1, FindBinBody<UseAsGuess>{
                        samples, kSampleBins, {chosen, static_cast<uint32_t>(plan.wanted)}});
  }
  constexpr uint32_t kCountingBlocks = 512;  // each adds its bins to the common bins
  const uint32_t blocks = std::min(TilesOf(elements), kCountingBlocks);
  for (uint32_t d = 0; d < kDigits; ++d) {
    const Digit digit = DigitAt(d);
    const uint32_t count = 1u << digit.width;
    uint32_t* const bins = queue.template Scratch<uint32_t>(count);
    queue.Zero(bins, count);
    if (d == 0) {
      queue.Launch(blocks, MakeBody<Maker>{maker, elements, chosen, sampled ? nullptr : bins});
      queue.Launch(1, JudgeBody{chosen, keep, sampled, false, 0});
    }
    if (d > 0 || sampled) {
      queue.Launch(blocks, DigitsBody<Maker>{maker, elements, chosen, digit, bins});
    }
    queue.Launch(1, FindBinBody<UseAsDigit>{bins, count, {chosen, digit.shift}});
  }
  const uint32_t chunks = (elements + kTieChunk - 1) / kTieChunk;
  uint32_t* ties = queue.template Scratch<uint32_t>(chunks);
  queue.Launch(chunks, CountTiesBody<Maker>{maker, elements, chosen, ties});
  queue.Launch(1, FindLastTieBody<Maker>{maker, elements, ties, chosen});
  ListChosen(queue, maker, false, &entries);
  return entries;
}

}  // namespace psgd::cuda
