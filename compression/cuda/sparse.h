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

struct UseAsMean {
  const uint32_t* count;
  float* at;
  PS_HD void operator()(double sum) const { *at = CoarseMean(sum, *count); }
};
// Sums the magnitudes of the entries. A block has one stretch.
template <typename Maker>
struct MagnitudesOfEntriesBody {
  struct Shared {
    StretchSum stretch;
    PartSums<UseAsMean>::Shared fold;
  };
  Maker maker;
  Entries entries;
  PartSums<UseAsMean> sums;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const size_t begin = size_t{block.index()} * kSumStretch, count = entries.count();
    const uint32_t own = StretchLength(begin, count);
    block.ForEach(
        own, [&](size_t i) { shared.stretch.value[i] = maker.Made(entries.indices[begin + i]); });
    shared.stretch.Sum(
        block, own, [](float value) { return static_cast<double>(std::fabs(value)); },
        [&](double sum, uint32_t) { sums.part[block.index()] = sum; });
    sums.Fold(block, StretchesOf(count), shared.fold);
  }
};

// Writes values and header, leaves the rest in the residual, and plans the codes.
template <typename Maker>
struct EntriesBody {
  using Shared = RicePlanner::Shared;
  Maker maker;
  RicePlanner planner;
  uint32_t elements;
  ValueCoding coding;
  float magnitude;  // of all values, for signs; below 0: their mean is in the payload
  CoderOutput output;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const uint32_t count = planner.entries.count();
    const bool all = count == elements && elements > 0;
    const size_t codes_at = kSparseHeaderBytes + SparseValueBytes(coding, count);
    StoreValues(block, count);
    planner.Plan(block, !all, codes_at, output, shared, [&](uint32_t low_bits) {
      uint32_t* header = reinterpret_cast<uint32_t*>(output.payload);
      header[0] = count;
      header[1] = low_bits |
                  static_cast<uint32_t>(all ? IndexCoding::kAll : IndexCoding::kRice) << 8 |
                  static_cast<uint32_t>(coding) << 16;
      if (coding == ValueCoding::kSign && magnitude >= 0) *Magnitude() = magnitude;
    });
  }

 private:
  PS_HD float* Magnitude() const {
    return reinterpret_cast<float*>(output.payload + kSparseHeaderBytes);
  }

  PS_HD void StoreValues(const Block& block, uint32_t count) const {
    if (coding == ValueCoding::kSign) return StoreSigns(block, count);
    std::byte* const values = output.payload + kSparseHeaderBytes;
    block.ForAll(count, [&](size_t i) {
      const uint32_t index = planner.entries.indices[i];
      const float value = maker.Made(index);
      if (coding == ValueCoding::kFloat) {
        reinterpret_cast<float*>(values)[i] = value;
        maker.Leave(index, 0);
        return;
      }
      uint16_t* const halves = reinterpret_cast<uint16_t*>(values);
      halves[i] = HalfFromFloat(value);
      maker.Leave(index, value - FloatFromHalf(halves[i]));
      if (i % 2 == 0 && i + 1 == count) halves[i + 1] = 0;  // to fill the word
    });
  }

  PS_HD void StoreSigns(const Block& block, uint32_t count) const {
    const float sent = magnitude >= 0 ? magnitude : *Magnitude();
    uint32_t* const words = reinterpret_cast<uint32_t*>(Magnitude() + 1);
    for (uint32_t begin = block.index() * kThreads; begin < count;
         begin += block.count() * kThreads) {
      block.Bits(
          count - begin < kThreads ? count - begin : kThreads,
          [&](uint32_t i) {
            const uint32_t at = planner.entries.indices[begin + i];
            const float value = maker.Made(at);
            const bool bit = value >= 0;
            maker.Leave(at, value + (bit ? -sent : sent));
            return bit;
          },
          [&](uint32_t w, uint32_t bits) { words[begin / 32 + w] = bits; });
    }
  }
};

// Length of the longest payload of `room` entries.
inline size_t SparseBound(uint32_t room, uint32_t elements, ValueCoding coding) {
  return kSparseHeaderBytes + SparseValueBytes(coding, room) + RiceBound(room, elements);
}

// Does the same as WriteSparse on the host; `magnitude` is as there.
template <typename Queue, typename Maker>
void WriteEntries(Queue& queue, const Maker& maker, const Entries& entries, uint32_t elements,
                  ValueCoding coding, float magnitude, const CoderOutput& output) {
  if (coding == ValueCoding::kSign && magnitude < 0) {
    float* const at = reinterpret_cast<float*>(output.payload + kSparseHeaderBytes);
    const uint32_t stretches = StretchesOf(entries.room);
    queue.Launch(stretches,
                 MagnitudesOfEntriesBody<Maker>{
                     maker, entries, NewSums(queue, stretches, UseAsMean{entries.found, at})});
  }
  const RicePlanner planner = NewPlanner(queue, entries);
  queue.Launch(EntryBlocks(entries.room),
               EntriesBody<Maker>{maker, planner, elements, coding, magnitude, output});
  LaunchCodes(queue, planner, output.payload);
}

}  // namespace psgd::cuda
