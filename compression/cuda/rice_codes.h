// Rice codes of chosen indices (compression/sparse/rice.h) on a device. A running sum says where
// each code begins, and each entry sets its own bits.
#pragma once

#include <algorithm>
#include <cmath>

#include "compression/cuda/choose.h"
#include "compression/cuda/scan.h"
#include "compression/sparse/rice_choice.h"

namespace psgd::cuda {

inline constexpr uint32_t kRiceTries = 3;

// Lives in device memory.
struct RicePlan {
  uint32_t zeros[kRiceTries];  // in all codes, with each of the low_bits tried
  uint32_t low_bits;
  uint32_t coded;     // 0: no indices are sent
  uint32_t codes_at;  // byte offset in the payload
};

struct EntriesView {
  const uint32_t* indices;
  const Chosen* chosen;

  PS_HD uint32_t count() const { return chosen->count; }
  PS_HD uint32_t Gap(size_t i) const { return indices[i] - (i == 0 ? 0 : indices[i - 1] + 1); }
  PS_HD RiceCandidates Candidates() const {
    return count() == 0 ? RiceCandidates() : CandidatesFor(indices[count() - 1], count());
  }
};

struct GapsBody {
  struct Shared {
    uint32_t zeros[kRiceTries];
  };
  EntriesView entries;
  RicePlan* plan;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    block.ForEach(kRiceTries, [&](size_t k) { shared.zeros[k] = 0; });
    const RiceCandidates candidates = entries.Candidates();
    const uint32_t count = entries.count();
    block.Each([&](uint32_t thread) {
      uint32_t zeros[kRiceTries] = {};
      for (uint32_t i = block.index() * kThreads + thread; i < count;
           i += block.count() * kThreads) {
        const uint32_t gap = entries.Gap(i);
        for (uint32_t k = 0; k < kRiceTries; ++k) {
          // No code reads the sums beyond the candidates.
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
};

// Sets the low_bits that need the least room. Returns the number of bits.
PS_HD inline uint64_t ChooseLowBits(const EntriesView& entries, RicePlan* plan) {
  const uint32_t count = entries.count();
  plan->low_bits = 0;
  if (plan->coded == 0 || count == 0) return 0;
  const RiceCandidates candidates = entries.Candidates();
  uint64_t bits = 0;
  for (uint32_t low = candidates.first; low <= candidates.last; ++low) {
    const uint64_t total = count * (1ull + low) + plan->zeros[low - candidates.first];
    if (bits != 0 && total >= bits) continue;
    bits = total;
    plan->low_bits = low;
  }
  return bits;
}

// Number of zero bits before the one bit of each code.
struct ZerosOf {
  EntriesView entries;
  const RicePlan* plan;
  PS_HD auto Begin() const {
    return [entries = entries, count = plan->coded == 0 ? 0 : entries.count(),
            low = plan->low_bits](uint32_t i) { return i < count ? entries.Gap(i) >> low : 0; };
  }
};

// Writes the codes of neighbors. See TermsBody.
struct WriteCodes {
  class Ready {
   public:
    PS_HD Ready(const EntriesView& entries, const RicePlan& plan, uint32_t* words)
        : entries_(entries),
          count_(plan.coded == 0 ? 0 : entries.count()),
          low_(plan.low_bits),
          first_(plan.codes_at * 8ull),
          words_(words) {}

    PS_HD void operator()(uint32_t i, uint32_t zeros, uint32_t before) {
      if (i >= count_) return;
      const uint64_t at = first_ + i * (1ull + low_) + before + zeros;
      const uint64_t code = 1 | (uint64_t{entries_.Gap(i)} & ((1ull << low_) - 1)) << 1;
      const uint64_t bits = code << (at % 32);
      Add(at / 32, static_cast<uint32_t>(bits));
      if (bits >> 32 != 0) Add(at / 32 + 1, static_cast<uint32_t>(bits >> 32));
    }
    PS_HD void End() {
      if (word_ != 0) AtomicOr(&words_[at_], word_);
    }

   private:
    PS_HD void Add(uint64_t at, uint32_t bits) {
      if (at != at_) {
        End();
        at_ = at;
        word_ = 0;
      }
      word_ |= bits;
    }

    const EntriesView entries_;
    const uint32_t count_, low_;
    const uint64_t first_;  // bit
    uint32_t* const words_;
    uint64_t at_ = 0;    // the word that is not yet stored
    uint32_t word_ = 0;  // its bits
  };
  EntriesView entries;
  const RicePlan* plan;
  std::byte* payload;  // its bytes for codes are 0 so far

  PS_HD Ready Begin() const { return {entries, *plan, reinterpret_cast<uint32_t*>(payload)}; }
};

// Upper bound of the bytes of `room` codes below `places`. The best of the low_bits tried takes at
// most 3.9 + log2(0.69 places / count) bits an entry, and less than 2 a place.
inline size_t RiceBound(uint32_t room, uint32_t places) {
  const double each = 3.9 + std::max(0.0, std::log2(0.69 * places / std::max(1u, room)));
  return static_cast<size_t>(std::min(each * room, 2.0 * places) / 8) + 1;
}

// First step: measures what is needed to choose `plan`. REQUIRES: the payload's codes are zero.
template <typename Queue>
RicePlan* MeasureGaps(Queue& queue, const EntriesView& entries, uint32_t room) {
  RicePlan* plan = queue.template Scratch<RicePlan>(1);
  queue.Zero(plan, 1);
  constexpr uint32_t kMost = 256;  // each adds to the common sums
  queue.Launch(std::min(kMost, BlocksFor(room)), GapsBody{entries, plan});
  return plan;
}

// Last step, once the plan says where the codes go.
template <typename Queue>
void LaunchCodes(Queue& queue, const EntriesView& entries, uint32_t room, const RicePlan* plan,
                 std::byte* payload) {
  ForEachTerm(queue, room, ZerosOf{entries, plan}, nullptr, WriteCodes{entries, plan, payload});
}

}  // namespace psgd::cuda
