// Rice codes of chosen indices (compression/sparse/rice.h) on a device. One launch writes the
// codec's values and measures the gaps between the indices; its last block makes the plan.
// In the next launch a running sum says where each code begins, and each entry sets its own bits.
#pragma once

#include <algorithm>
#include <cmath>

#include "compression/cuda/choose.h"
#include "compression/cuda/scan.h"
#include "compression/sparse/rice_choice.h"

namespace psgd::cuda {

inline constexpr uint32_t kRiceTries = 3;

// Lives in device memory, all 0 at first.
struct RicePlan {
  uint32_t zeros[kRiceTries];  // in all codes, with each of the low_bits tried
  uint32_t gaps_ended;         // blocks that have measured their gaps
  uint32_t low_bits;
  uint32_t coded;     // 0: no indices are sent
  uint32_t codes_at;  // byte offset in the payload
};

// Plans the codes of entries: a part of a launch over all entries.
struct RicePlanner {
  struct Shared {
    uint32_t zeros[kRiceTries];
    uint32_t ended;
  };
  Entries entries;
  RicePlan* plan;

  // Phases: measures the gaps, and sets the payload's words for codes to 0: from byte `codes_at`
  // on. The block that ends last makes the plan: one thread sets *output.bytes and calls
  // write_header(low_bits). Not `coded`: there are no codes. REQUIRES: values fill their last word.
  template <typename WriteHeader>
  PS_HD void Plan(const Block& block, bool coded, size_t codes_at, const CoderOutput& output,
                  Shared& shared, WriteHeader write_header) const {
    const uint32_t count = coded ? entries.count() : 0;
    Measure(block, count, shared);
    const size_t begin = (codes_at + 3) / 4, end = (codes_at + (MostBits(count) + 7) / 8 + 3) / 4;
    uint32_t* const words = reinterpret_cast<uint32_t*>(output.payload);
    block.ForAll(end - begin, [&](size_t w) { words[begin + w] = 0; });
    if (!EndsLast(block, block.count(), &plan->gaps_ended, &shared.ended)) return;
    block.Once([&] {
      *output.bytes = codes_at + (ChooseLowBits(count) + 7) / 8;
      plan->coded = coded;
      plan->codes_at = static_cast<uint32_t>(codes_at);
      write_header(plan->low_bits);
    });
  }

 private:
  PS_HD void Measure(const Block& block, uint32_t count, Shared& shared) const {
    const RiceCandidates candidates = CandidatesOf(count);
    block.ForEach(kRiceTries, [&](size_t k) { shared.zeros[k] = 0; });
    block.Each([&](uint32_t thread) {
      uint32_t zeros[kRiceTries] = {};
      for (uint32_t i = block.index() * kThreads + thread; i < count;
           i += block.count() * kThreads) {
        const uint32_t gap = entries.indices[i] - (i == 0 ? 0 : entries.indices[i - 1] + 1);
        for (uint32_t k = 0; k < kRiceTries; ++k) {
          // Only candidates have sums. A shift by 32 is undefined.
          const uint32_t low = candidates.first + k;
          if (low <= candidates.last) zeros[k] += gap >> low;
        }
      }
      for (uint32_t k = 0; k < kRiceTries; ++k) {
        if (zeros[k] != 0) AtomicAdd(&shared.zeros[k], zeros[k]);
      }
    });
    block.ForEach(kRiceTries, [&](size_t k) {
      if (shared.zeros[k] != 0) AtomicAdd(&plan->zeros[k], shared.zeros[k]);
    });
  }

  // Sets the low_bits whose codes take the fewest bits. Returns these bits.
  PS_HD uint64_t ChooseLowBits(uint32_t count) const {
    const RiceCandidates candidates = CandidatesOf(count);
    uint64_t bits = 0;
    plan->low_bits = 0;
    for (uint32_t low = candidates.first; count > 0 && low <= candidates.last; ++low) {
      const uint64_t total = count * (1ull + low) + plan->zeros[low - candidates.first];
      if (bits != 0 && total >= bits) continue;
      bits = total;
      plan->low_bits = low;
    }
    return bits;
  }

  PS_HD RiceCandidates CandidatesOf(uint32_t count) const {
    return count == 0 ? RiceCandidates() : CandidatesFor(entries.indices[count - 1], count);
  }
  // An upper bound of a plan's bits: shifted gaps add up to no more than their shifted sum.
  PS_HD uint64_t MostBits(uint32_t count) const {
    if (count == 0) return 0;
    const RiceCandidates candidates = CandidatesOf(count);
    const uint64_t gaps = entries.indices[count - 1] + 1ull - count;
    uint64_t most = count * (1ull + candidates.first) + (gaps >> candidates.first);
    for (uint32_t low = candidates.first + 1; low <= candidates.last; ++low) {
      const uint64_t bits = count * (1ull + low) + (gaps >> low);
      if (bits < most) most = bits;
    }
    return most;
  }
};

template <typename Queue>
RicePlanner NewPlanner(Queue& queue, const Entries& entries) {
  RicePlan* const plan = queue.template Scratch<RicePlan>(1);
  queue.Zero(plan, 1);
  return {entries, plan};
}

// Blocks of a launch that measures the gaps of entries and writes up to `room` values; each adds to
// the common sums.
inline uint32_t EntryBlocks(size_t room) {
  constexpr uint32_t kMost = 256;
  return std::clamp(BlocksFor(room), 1u, kMost);
}

// Writes the codes. A block has one chunk of the entries.
struct CodesBody {
  static constexpr uint32_t kEach = kScanChunk / kThreads;
  struct Shared {
    BlockScan scan;
    uint32_t chunk, before;
    uint32_t index[kScanChunk + kThreads + 1];  // the chunk's, behind the one before them
  };
  Entries entries;
  const RicePlan* plan;
  ScanState* state;
  uint32_t* words;  // of the payload; those for codes are 0 so far

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const uint32_t count = plan->coded == 0 ? 0 : entries.count(), low = plan->low_bits;
    if (size_t{block.index()} * kScanChunk >= count) return;
    block.Once([&] {
      shared.chunk = state->Take();
      shared.before = 0;
    });
    const uint32_t chunk = shared.chunk, begin = chunk * kScanChunk;
    const uint32_t own = count - begin < kScanChunk ? count - begin : kScanChunk;
    block.ForEach(own + 1, [&](size_t k) {
      const size_t i = begin + k;
      shared.index[Place(static_cast<uint32_t>(k))] = i == 0 ? ~0u : entries.indices[i - 1];
    });
    block.Each([&](uint32_t thread) {
      uint32_t zeros = 0;
      ForOwn(thread, own, shared, [&](uint32_t, uint32_t gap) { zeros += gap >> low; });
      shared.scan.value[thread] = zeros;
    });
    shared.scan.Exclusive(block);
    block.Once([&] { state->Tell(chunk, shared.scan.total()); });
    state->AddSumsBefore(block, chunk, &shared.before);
    block.Each([&](uint32_t thread) {
      uint64_t zeros = uint64_t{shared.before} + shared.scan.value[thread];
      Words written(words);
      ForOwn(thread, own, shared, [&](uint32_t k, uint32_t gap) {
        zeros += gap >> low;
        const uint64_t at = plan->codes_at * 8ull + (begin + k) * (1ull + low) + zeros;
        const uint64_t code = 1 | (uint64_t{gap} & ((1ull << low) - 1)) << 1;
        const uint64_t bits = code << (at % 32);
        written.Add(at / 32, static_cast<uint32_t>(bits));
        if (bits >> 32 != 0) written.Add(at / 32 + 1, static_cast<uint32_t>(bits >> 32));
      });
      written.End();
    });
  }

 private:
  // Leaves a word free after each thread's indices, so that threads read different banks of shared
  // memory.
  PS_HD static uint32_t Place(uint32_t k) { return k + k / kEach; }

  // f(k, gap) for each entry of a thread: entry k of the chunk.
  template <typename F>
  PS_HD static void ForOwn(uint32_t thread, uint32_t own, const Shared& shared, F f) {
    for (uint32_t k = thread * kEach; k < (thread + 1) * kEach && k < own; ++k) {
      f(k, shared.index[Place(k + 1)] - (shared.index[Place(k)] + 1));
    }
  }

  // Collects the bits of neighbors, so that a thread sets those of a word at once.
  class Words {
   public:
    PS_HD explicit Words(uint32_t* words) : words_(words) {}
    PS_HD void Add(uint64_t at, uint32_t bits) {
      if (at != at_) {
        End();
        at_ = at;
        word_ = 0;
      }
      word_ |= bits;
    }
    PS_HD void End() {
      if (word_ != 0) AtomicOr(&words_[at_], word_);
    }

   private:
    uint32_t* const words_;
    uint64_t at_ = 0;    // the word that is not yet stored
    uint32_t word_ = 0;  // its bits
  };
};

// Upper bound of the bytes of `room` codes below `places`. The best of the low_bits tried takes at
// most 3.9 + log2(0.69 places / count) bits an entry, and less than 2 a place.
inline size_t RiceBound(uint32_t room, uint32_t places) {
  const double each = 3.9 + std::max(0.0, std::log2(0.69 * places / std::max(1u, room)));
  return static_cast<size_t>(std::min(each * room, 2.0 * places) / 8) + 1;
}

// Writes the codes, once the plan says where they go.
template <typename Queue>
void LaunchCodes(Queue& queue, const RicePlanner& planner, std::byte* payload) {
  const uint32_t chunks = ScanChunksOf(planner.entries.room);
  queue.Launch(chunks, CodesBody{planner.entries, planner.plan, NewScan(queue, chunks),
                                 reinterpret_cast<uint32_t*>(payload)});
}

}  // namespace psgd::cuda
