// Writes chosen entries on a device, in the format of compression/sparse/sparse_payload.h.
#pragma once

#include <cmath>

#include "compression/coarse.h"
#include "compression/cuda/rice_codes.h"
#include "compression/cuda/signs.h"
#include "compression/cuda/sums.h"
#include "compression/dense/half.h"
#include "compression/sparse/sparse_layout.h"

namespace psgd::cuda {

// Chooses the low_bits and writes the header.
struct PlanBody {
  using Shared = Nothing;
  EntriesView entries;
  uint32_t elements;
  ValueCoding coding;
  RicePlan* plan;
  CoderOutput output;

  PS_HD void operator()(const Block& block, Shared&) const {
    block.Once([&] {
      const uint32_t count = entries.count();
      const bool all = count == elements && elements > 0;
      plan->coded = !all;
      plan->codes_at = static_cast<uint32_t>(kSparseHeaderBytes + SparseValueBytes(coding, count));
      const uint64_t bits = ChooseLowBits(entries, plan);
      uint32_t* header = reinterpret_cast<uint32_t*>(output.payload);
      header[0] = count;
      header[1] = plan->low_bits |
                  static_cast<uint32_t>(all ? IndexCoding::kAll : IndexCoding::kRice) << 8 |
                  static_cast<uint32_t>(coding) << 16;
      *output.bytes = plan->codes_at + (bits + 7) / 8;
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
      uint32_t* const words = reinterpret_cast<uint32_t*>(values + sizeof(float));
      for (uint32_t begin = block.index() * kThreads; begin < count;
           begin += block.count() * kThreads) {
        block.Bits(
            count - begin < kThreads ? count - begin : kThreads,
            [&](uint32_t i) {
              const uint32_t at = entries.indices[begin + i];
              const float value = maker.Made(at);
              const bool bit = value >= 0;
              maker.Leave(at, value + (bit ? -magnitude : magnitude));
              return bit;
            },
            [&](uint32_t w, uint32_t bits) { words[begin / 32 + w] = bits; });
      }
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

struct StretchesOfChosen {
  const Chosen* chosen;
  PS_HD size_t operator()() const { return (chosen->count + kSumStretch - 1) / kSumStretch; }
};
// part[b] is the sum of the magnitudes of stretch b of the entries.
template <typename Maker>
struct MagnitudesOfEntriesBody {
  using Shared = StretchSum;
  Maker maker;
  EntriesView entries;
  double* part;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const size_t begin = size_t{block.index()} * kSumStretch;
    const uint32_t own = StretchLength(begin, entries.count());
    block.ForEach(own, [&](size_t i) { shared.value[i] = maker.Made(entries.indices[begin + i]); });
    shared.Sum(
        block, own, [](float value) { return static_cast<double>(std::fabs(value)); },
        [&](double sum, uint32_t) { part[block.index()] = sum; });
  }
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
    block.Once([&] { *at = value; });
  }
};

// Length of the longest payload of `room` entries.
inline size_t SparseBound(uint32_t room, uint32_t elements, ValueCoding coding) {
  return kSparseHeaderBytes + SparseValueBytes(coding, room) + RiceBound(room, elements);
}

// Does the same as WriteSparse on the host; `magnitude` is as there.
template <typename Queue, typename Maker>
void WriteEntries(Queue& queue, const Maker& maker, const Entries& entries, ValueCoding coding,
                  float magnitude, const CoderOutput& output) {
  const EntriesView view = {entries.indices, entries.chosen};
  const uint32_t room = entries.room;
  const size_t bound = SparseBound(room, entries.elements, coding);
  queue.Zero(reinterpret_cast<uint32_t*>(output.payload), (bound + 3) / 4);
  RicePlan* plan = MeasureGaps(queue, view, room);
  queue.Launch(1, PlanBody{view, entries.elements, coding, plan, output});
  std::byte* values = output.payload + kSparseHeaderBytes;
  if (coding == ValueCoding::kSign) {
    float* at = reinterpret_cast<float*>(values);
    if (magnitude >= 0) {
      queue.Launch(1, StoreBody{magnitude, at});
    } else {
      double* part = queue.template Scratch<double>(StretchesOf(room));
      queue.Launch(StretchesOf(room), MagnitudesOfEntriesBody<Maker>{maker, view, part});
      queue.Launch(
          1, FoldBody<StretchesOfChosen, UseAsMean>{part, {entries.chosen}, {entries.chosen, at}});
    }
  }
  queue.Launch(BlocksFor(room), ValuesBody<Maker>{maker, view, room, coding, values});
  LaunchCodes(queue, view, room, plan, output.payload);
}

}  // namespace psgd::cuda
