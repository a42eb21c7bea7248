// Chooses the elements of a slice to send, on a device, as compression/sparse/select_largest.h
// does: by their magnitudes' bits, the lower index first among equals. A Maker makes the numbers to
// choose from:
//   Corrected(i)             number i, before it is made: for the sample
//   In()                     a source: the passes that make numbers read it
//   Store(i, values, count)  gets numbers i, i + 1, ... of In(), makes `values` the numbers to
//                            choose from, and stores them
//   Made(i)                  number i, once made: for the list of candidates, and to send it
//   Out()                    a source of the made numbers: the passes that choose read it
//   Leave(i, left)           stores `left`, the rest of number i that is not sent
// A Maker whose numbers are made already has only Out().
// If a sample guesses which magnitude the chosen numbers reach, the pass that makes the numbers
// lists those that reach it, the candidates, and later passes read these alone. If the sample
// guesses badly, or takes no part, all numbers are candidates.
#pragma once

#include "compression/cuda/scan.h"
#include "compression/sparse/sample_plan.h"

namespace psgd::cuda {

// A part of a magnitude's bits. The first has those at the top.
struct Digit {
  uint32_t shift, width;  // in bits
};
inline constexpr uint32_t kDigits = 3;
PS_HD constexpr Digit DigitAt(uint32_t d) {
  return d == 0 ? Digit{20, 11} : d == 1 ? Digit{10, 10} : Digit{0, 10};
}
inline constexpr uint32_t kMostBins = 1u << DigitAt(0).width;  // of a digit

inline constexpr uint32_t kEveryTie = 0xFFFFFFFFu;

// Lives in device memory, all 0 at first. Each launch reads what those before it wrote.
struct Chosen {
  uint32_t sample_ended;  // blocks that have sampled their part
  uint32_t guess;         // magnitude bits, guessed from the sample
  uint32_t listed;        // candidates in their list; 0: all numbers are candidates
  uint32_t settled;       // not 0: least and ties are known
  uint32_t least;         // bits of the least chosen magnitude
  uint32_t ties;          // how many that equal it are chosen
  uint32_t count;         // elements chosen
};

// Finds the bin in which the count from the top reaches `wanted`: the lowest bin if no bin does.
// One thread calls use(bin, elements still wanted of that bin, elements in it). REQUIRES: kThreads
// divides `count`; wanted > 0.
template <typename Use>
PS_HD void FindBin(const Block& block, const uint32_t* bins, uint32_t count, uint32_t wanted,
                   BlockScan& scan, Use use) {
  const uint32_t each = count / kThreads;
  // Thread 0 has the bins at the top.
  block.Each([&](uint32_t thread) {
    uint32_t sum = 0;
    for (uint32_t b = count - (thread + 1) * each; b < count - thread * each; ++b) sum += bins[b];
    scan.value[thread] = sum;
  });
  scan.Exclusive(block);
  block.Each([&](uint32_t thread) {
    const uint32_t before = scan.value[thread];
    // The last thread has the lowest bin. The sum of all bins may be below `wanted`.
    const bool last = thread == kThreads - 1;
    if (before >= wanted || (!last && scan.Through(thread) < wanted)) return;
    uint32_t left = wanted - before, bin = count - thread * each - 1;
    while (bin > count - (thread + 1) * each && bins[bin] < left) left -= bins[bin--];
    use(bin, left, bins[bin]);
  });
}

// Guesses the magnitude that the chosen numbers reach.
template <typename Maker>
struct SampleBody {
  struct Shared {
    BlockScan scan;
    uint32_t ended;
  };
  Maker maker;
  SamplePlan plan;
  uint32_t* bins;  // kSampleBins, all 0
  Chosen* chosen;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    block.ForAll(plan.runs * kSampleRun, [&](size_t i) {
      const float value = maker.Corrected(plan.Begin(i / kSampleRun) + i % kSampleRun);
      AtomicAdd(&bins[MagnitudeBits(value) >> kSampleShift], 1);
    });
    if (!EndsLast(block, block.count(), &chosen->sample_ended, &shared.ended)) return;
    FindBin(block, bins, kSampleBins, static_cast<uint32_t>(plan.wanted), shared.scan,
            [&](uint32_t bin, uint32_t, uint32_t) {
              const uint32_t guess = bin << kSampleShift;
              chosen->guess = guess < kLeastNotZero ? kLeastNotZero : guess;
            });
  }
};

// Makes numbers and flags those that reach `least`.
template <typename Maker>
struct MakeAndFlag {
  Maker maker;
  uint32_t least;

  template <typename Count>
  PS_HD ListFlags operator()(size_t i, Four& values, Count count) const {
    maker.Store(i, values, count);
    ListFlags flags;
    for (uint32_t k = 0; k < count; ++k) {
      flags.sure |= uint32_t{MagnitudeBits(values.at[k]) >= least} << k;
    }
    return flags;
  }
};

// Makes all numbers and chooses those that reach `least`. See ListBody.
template <typename Maker>
struct MakeReaching {
  Maker maker;
  uint32_t elements, least;
  uint32_t* indices;
  uint32_t* found;  // how many there are

  PS_HD uint32_t Count() const { return elements; }
  PS_HD Source In() const { return maker.In(); }
  PS_HD uint32_t Ties() const { return 0; }
  PS_HD MakeAndFlag<Maker> Begin() const { return {maker, least}; }
  PS_HD void Put(uint32_t at, uint32_t i) const { indices[at] = i; }
  PS_HD void End(uint32_t count) const { *found = count; }
};

// Those numbers that may still be chosen, ascending.
template <typename Maker>
struct Candidates {
  Maker maker;
  uint32_t elements;
  Chosen* chosen;
  // The list, if chosen->listed says that there is one.
  uint32_t* indices = nullptr;
  float* values = nullptr;

  PS_HD bool Listed() const { return chosen->listed != 0; }
  PS_HD uint32_t Count() const { return Listed() ? chosen->listed : elements; }
  PS_HD uint32_t IndexOf(uint32_t candidate) const {
    return Listed() ? indices[candidate] : candidate;
  }
  PS_HD Source Values() const {
    if (!Listed()) return maker.Out();
    Source listed;
    listed.gradient = values;
    return listed;
  }
};

// Makes all numbers and lists the candidates: those that reach the guess. See ListBody.
template <typename Maker>
struct MakeCandidates {
  Candidates<Maker> candidates;
  uint32_t room;  // of the list
  uint32_t keep;
  bool sampled;  // as Selection::kSampled

  PS_HD uint32_t Count() const { return candidates.elements; }
  PS_HD Source In() const { return candidates.maker.In(); }
  PS_HD uint32_t Ties() const { return 0; }
  PS_HD MakeAndFlag<Maker> Begin() const { return {candidates.maker, candidates.chosen->guess}; }
  PS_HD void Put(uint32_t at, uint32_t i) const {
    if (at >= room) return;
    candidates.indices[at] = i;
    candidates.values[at] = candidates.maker.Made(i);
  }
  // Judges the guess.
  PS_HD void End(uint32_t reached) const {
    Chosen* const chosen = candidates.chosen;
    const bool no_others = chosen->guess == kLeastNotZero && reached <= keep;  // that are not zero
    const bool accepted = sampled && reached >= LeastOf(keep) && reached <= MostOf(keep);
    if (no_others || accepted) {
      chosen->settled = 1;
      chosen->least = chosen->guess;
      chosen->ties = kEveryTie;
    }
    const bool may_list = chosen->settled != 0 || reached >= keep;
    if (may_list && reached <= room) chosen->listed = reached;
  }
};

// Makes all numbers, in tiles.
template <typename Maker>
struct MakeBody {
  using Shared = Nothing;
  Maker maker;
  uint32_t elements;

  PS_HD void operator()(const Block& block, Shared&) const {
    const Source in = maker.In();
    block.ForAllTiles(elements, kTile, [&](size_t begin, uint32_t thread) {
      ForRuns<kTile>(in, begin, elements, thread,
                     [&](size_t i, Four& values, auto count) { maker.Store(i, values, count); });
    });
  }
};

// What the blocks of CutBody tell each other. All 0 at first.
struct CutState {
  uint32_t started;         // parts, of one digit after the other
  uint32_t ended[kDigits];  // parts
  uint32_t found[kDigits];  // the digit, plus 1; 0: not yet known
  uint32_t left[kDigits];   // numbers still to choose among those that have the digits so far
  uint32_t bins[kDigits][kMostBins];
};

// Finds the least of the `keep` largest candidates, digit by digit. Each digit has parts: each
// counts the digit in its share of the candidates. Blocks take the parts of the first digit, then
// those of the second, which wait for the first digit, and so on. See PublishNumber.
template <typename Maker>
struct CutBody {
  struct Shared {
    uint32_t started, ended;
    uint32_t found;  // the digits so far
    uint32_t bins[kMostBins];
    BlockScan scan;
  };
  Candidates<Maker> candidates;
  uint32_t keep;
  CutState* state;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    if (candidates.chosen->settled != 0) return;
    const uint32_t tiles = TilesOf(candidates.Count());
    const uint32_t parts = tiles < block.count() ? tiles : block.count();
    if (block.index() >= parts) return;
    for (;;) {
      block.Once([&] { shared.started = AtomicAdd(&state->started, 1); });
      const uint32_t d = shared.started / parts, part = shared.started % parts;
      if (d >= kDigits) return;
      block.Once([&] {
        shared.found = 0;
        for (uint32_t e = 0; e < d; ++e) {
          shared.found |= (AwaitNumber(&state->found[e]) - 1) << DigitAt(e).shift;
        }
      });
      CountDigit(block, d, part, parts, shared);
      if (EndsLast(block, parts, &state->ended[d], &shared.ended)) FindDigit(block, d, shared);
    }
  }

 private:
  PS_HD void CountDigit(const Block& block, uint32_t d, uint32_t part, uint32_t parts,
                        Shared& shared) const {
    const uint32_t shift = DigitAt(d).shift, above = shift + DigitAt(d).width;
    const uint32_t count = 1u << DigitAt(d).width, found = shared.found;
    block.ForEach(count, [&](size_t b) { shared.bins[b] = 0; });
    block.Each([&](uint32_t thread) {
      const Source values = candidates.Values();
      const size_t end = candidates.Count();
      for (size_t begin = size_t{part} * kTile; begin < end; begin += size_t{parts} * kTile) {
        ForRuns<kTile>(values, begin, end, thread, [&](size_t, const Four& run, uint32_t own) {
          for (uint32_t k = 0; k < own; ++k) {
            const uint32_t bits = MagnitudeBits(run.at[k]);
            if (bits >> above != found >> above) continue;
            AtomicAdd(&shared.bins[(bits >> shift) & (count - 1)], 1);
          }
        });
      }
    });
    block.ForEach(count, [&](size_t b) {
      if (shared.bins[b] != 0) AtomicAdd(&state->bins[d][b], shared.bins[b]);
    });
  }

  PS_HD void FindDigit(const Block& block, uint32_t d, Shared& shared) const {
    const uint32_t wanted = d == 0 ? keep : AwaitNumber(&state->left[d - 1]);
    FindBin(block, state->bins[d], 1u << DigitAt(d).width, wanted, shared.scan,
            [&](uint32_t bin, uint32_t left, uint32_t) {
              PublishNumber(&state->left[d], left);
              PublishNumber(&state->found[d], bin + 1);
              if (d + 1 < kDigits) return;
              candidates.chosen->least = shared.found | bin << DigitAt(d).shift;
              candidates.chosen->ties = left;
            });
  }
};

// Lists the chosen candidates, none of which is zero. See ListBody.
template <typename Maker>
struct PickChosen {
  Candidates<Maker> candidates;
  uint32_t* indices;  // of the chosen

  PS_HD uint32_t Count() const { return candidates.Count(); }
  PS_HD Source In() const { return candidates.Values(); }
  PS_HD uint32_t Ties() const { return candidates.chosen->ties; }
  PS_HD auto Begin() const {
    return [least = candidates.chosen->least](size_t, const Four& values, uint32_t count) {
      ListFlags flags;
      for (uint32_t k = 0; k < count; ++k) {
        const uint32_t bits = MagnitudeBits(values.at[k]);
        flags.sure |= uint32_t{bits > least} << k;
        flags.tied |= uint32_t{bits == least && bits != 0} << k;
      }
      return flags;
    };
  }
  PS_HD void Put(uint32_t at, uint32_t i) const { indices[at] = candidates.IndexOf(i); }
  PS_HD void End(uint32_t count) const { candidates.chosen->count = count; }
};

}  // namespace psgd::cuda
