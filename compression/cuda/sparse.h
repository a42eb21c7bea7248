// Writes chosen entries as compression/sparse_payload.h says, on a device: the places of the Rice codes
// are a running sum, and each entry sets its own bits.
#pragma once

#include <cmath>

#include "compression/cuda/choose.h"
#include "compression/cuda/signs.h"
#include "compression/cuda/sums.h"
#include "compression/half.h"
#include "compression/rice_choice.h"
#include "compression/sparse_layout.h"

namespace psgd::cuda {

inline constexpr uint32_t kRiceTries = 3;

// In device memory.
struct SparsePlan {
  uint32_t zeros[kRiceTries];  // of all codes, with each of the low_bits that are tried
  uint32_t low_bits;
  uint32_t coded;  // 0: all elements are sent, and no indices
};

struct EntriesView {
  const uint32_t* indices;
  const Chosen* chosen;
  uint32_t elements;

  PS_HD uint32_t count() const { return chosen->count; }
  PS_HD bool all() const { return count() == elements && elements > 0; }
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
  uint32_t room;
  SparsePlan* plan;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    block.ForEach(kRiceTries, [&](size_t k) { shared.zeros[k] = 0; });
    const RiceCandidates candidates = entries.Candidates();
    const uint32_t count = entries.count();
    block.ForAll(room, [&](size_t i) {
      if (i >= count) return;
      for (uint32_t k = 0; k < kRiceTries; ++k) {
        // What is beyond the candidates is not read.
        const uint32_t low = candidates.first + k;
        if (low <= candidates.last) AtomicAdd(&shared.zeros[k], entries.Gap(i) >> low);
      }
    });
    block.ForEach(kRiceTries, [&](size_t k) {
      if (shared.zeros[k] != 0) AtomicAdd(&plan->zeros[k], shared.zeros[k]);
    });
  }
};

// Takes the low_bits that need the least room, and writes the header.
struct PlanBody {
  using Shared = Nothing;
  EntriesView entries;
  ValueCoding coding;
  SparsePlan* plan;
  CoderOutput output;

  PS_HD void operator()(const Block& block, Shared&) const {
    block.Each([&](uint32_t thread) {
      if (thread != 0) return;
      const uint32_t count = entries.count();
      plan->low_bits = 0;
      plan->coded = !entries.all();
      uint64_t bits = 0;
      if (plan->coded != 0 && count > 0) {
        const RiceCandidates candidates = entries.Candidates();
        for (uint32_t low = candidates.first; low <= candidates.last; ++low) {
          const uint64_t total = count * (1ull + low) + plan->zeros[low - candidates.first];
          if (bits != 0 && total >= bits) continue;
          bits = total;
          plan->low_bits = low;
        }
      }
      uint32_t* header = reinterpret_cast<uint32_t*>(output.payload);
      const auto indices = plan->coded != 0 ? IndexCoding::kRice : IndexCoding::kAll;
      header[0] = count;
      header[1] = plan->low_bits | static_cast<uint32_t>(indices) << 8 |
                  static_cast<uint32_t>(coding) << 16;
      *output.bytes = kSparseHeaderBytes + SparseValueBytes(coding, count) + (bits + 7) / 8;
    });
  }
};

template <typename Maker>
struct ValuesBody {
  using Shared = Nothing;
  Maker maker;
  EntriesView entries;
  uint32_t room;
  ValueCoding coding;
  std::byte* values;

  PS_HD void operator()(const Block& block, Shared&) const {
    const uint32_t count = entries.count();
    if (coding == ValueCoding::kSign) {
      const float magnitude = *reinterpret_cast<const float*>(values);
      block.ForAll(BitBytes(room), [&](size_t b) {
        if (b >= BitBytes(count)) return;
        values[sizeof(float) + b] = ByteOfBits(b, count, [&](size_t i) {
          const float value = maker.Made(entries.indices[i]);
          const bool bit = value >= 0;
          maker.Leave(entries.indices[i], value + (bit ? -magnitude : magnitude));
          return bit;
        });
      });
      return;
    }
    block.ForAll(room, [&](size_t i) {
      if (i >= count) return;
      const float value = maker.Made(entries.indices[i]);
      if (coding == ValueCoding::kFloat) {
        reinterpret_cast<float*>(values)[i] = value;
        maker.Leave(entries.indices[i], 0);
      } else {
        const uint16_t half = HalfFromFloat(value);
        reinterpret_cast<uint16_t*>(values)[i] = half;
        maker.Leave(entries.indices[i], value - FloatFromHalf(half));
      }
    });
  }
};

// Zero bits before the one bit of each code.
struct ZerosOf {
  EntriesView entries;
  const SparsePlan* plan;
  PS_HD uint32_t operator()(uint32_t i) const {
    return i < entries.count() && plan->coded != 0 ? entries.Gap(i) >> plan->low_bits : 0;
  }
};

struct CodesBody {
  using Shared = Nothing;
  EntriesView entries;
  uint32_t room;
  ValueCoding coding;
  const SparsePlan* plan;
  const uint32_t* zeros_before;
  std::byte* payload;  // whose codes are 0 so far

  PS_HD void operator()(const Block& block, Shared&) const {
    const uint32_t count = entries.count(), low = plan->low_bits;
    const size_t begin = kSparseHeaderBytes + SparseValueBytes(coding, count);
    if (plan->coded == 0) return;
    uint32_t* words = reinterpret_cast<uint32_t*>(payload);
    block.ForAll(room, [&](size_t i) {
      if (i >= count) return;
      const uint32_t gap = entries.Gap(i);
      const uint64_t at = begin * 8 + i * (1ull + low) + zeros_before[i] + (gap >> low);
      const uint64_t code = 1 | (uint64_t{gap} & ((1ull << low) - 1)) << 1;
      const uint64_t bits = code << (at % 32);
      AtomicOr(&words[at / 32], static_cast<uint32_t>(bits));
      if (bits >> 32 != 0) AtomicOr(&words[at / 32 + 1], static_cast<uint32_t>(bits >> 32));
    });
  }
};

struct CountOfChosen {
  const Chosen* chosen;
  PS_HD size_t operator()() const { return chosen->count; }
};
struct StretchesOfChosen {
  const Chosen* chosen;
  PS_HD size_t operator()() const { return (chosen->count + kSumStretch - 1) / kSumStretch; }
};
template <typename Maker>
struct MagnitudeOfEntry {
  Maker maker;
  const uint32_t* indices;
  PS_HD float Make(size_t i) const { return maker.Made(indices[i]); }
  PS_HD static double Of(float value) { return std::fabs(value); }
};
struct UseAsMean {
  const Chosen* chosen;
  float* at;
  PS_HD void operator()(double sum) const { *at = CoarseMean(sum, chosen->count); }
};
struct StoreBody {
  using Shared = Nothing;
  float value;
  float* at;
  PS_HD void operator()(const Block& block, Shared&) const {
    block.Each([&](uint32_t thread) {
      if (thread == 0) *at = value;
    });
  }
};

// No payload of so many entries is longer. The best of the low_bits that are tried takes at most
// 3.9 + log2(0.69 elements / count) bits an entry, and less than 2 an element.
inline size_t SparseBound(uint32_t room, uint32_t elements, ValueCoding coding) {
  const double each = 3.9 + std::max(0.0, std::log2(0.69 * elements / std::max(1u, room)));
  const double bits = std::min(each * room, 2.0 * elements);
  return kSparseHeaderBytes + SparseValueBytes(coding, room) + static_cast<size_t>(bits / 8) + 8;
}

// As WriteSparse of the host; `magnitude` likewise.
template <typename Queue, typename Maker>
void WriteEntries(Queue& queue, const Maker& maker, const Entries& entries, ValueCoding coding,
                  float magnitude, const CoderOutput& output) {
  const EntriesView view = {entries.indices, entries.chosen, entries.elements};
  const uint32_t room = entries.room, blocks = BlocksFor(room);
  const size_t bound = SparseBound(room, entries.elements, coding);
  queue.Zero(reinterpret_cast<uint32_t*>(output.payload), (bound + 3) / 4);
  SparsePlan* plan = queue.template Scratch<SparsePlan>(1);
  queue.Zero(plan, 1);
  queue.Launch(blocks, GapsBody{view, room, plan});
  queue.Launch(1, PlanBody{view, coding, plan, output});
  std::byte* values = output.payload + kSparseHeaderBytes;
  if (coding == ValueCoding::kSign) {
    float* at = reinterpret_cast<float*>(values);
    if (magnitude >= 0) {
      queue.Launch(1, StoreBody{magnitude, at});
    } else {
      double* part = queue.template Scratch<double>(StretchesOf(room));
      queue.Launch(StretchesOf(room),
                   StretchSumBody<CountOfChosen, MagnitudeOfEntry<Maker>>{
                       {entries.chosen}, {maker, entries.indices}, part, nullptr});
      queue.Launch(1, FoldBody<StretchesOfChosen, UseAsMean>{
                          part, {entries.chosen}, {entries.chosen, at}});
    }
  }
  queue.Launch(blocks, ValuesBody<Maker>{maker, view, room, coding, values});
  uint32_t* zeros_before = queue.template Scratch<uint32_t>(room);
  queue.Scan(room, ZerosOf{view, plan}, zeros_before);
  queue.Launch(blocks, CodesBody{view, room, coding, plan, zeros_before, output.payload});
}

}  // namespace psgd::cuda
