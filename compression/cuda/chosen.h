// Chooses the elements of a slice to send, on a device, as compression/sparse/select_largest.h
// does: by their magnitudes' bits, the lower index first among equals. A Maker makes the numbers to
// choose from:
//   In(), Keep(i, values, count)  make numbers i, i + 1, ...: from those of the source In(), and
//                                 stores them
//   Corrected(i)   the value that they give number i
//   Made(i)        number i, once made
//   Out()          a source of these
//   Leave(i, left) keeps `left`, what is not sent of a chosen number i
//   kChoosesZeros  whether zeros are chosen if all numbers are
#pragma once

#include "compression/cuda/scan.h"
#include "compression/sparse/sample_plan.h"

namespace psgd::cuda {

inline constexpr uint32_t kEveryTie = 0xFFFFFFFFu;

// A part of a magnitude's bits. The first has those at the top.
struct Digit {
  uint32_t shift, width;  // in bits
};
inline constexpr uint32_t kDigits = 3;
PS_HD constexpr Digit DigitAt(uint32_t d) {
  return d == 0 ? Digit{20, 11} : d == 1 ? Digit{10, 10} : Digit{0, 10};
}
inline constexpr uint32_t kFirstBins = 1u << DigitAt(0).width;

// Lives in device memory. Each pass reads what the passes before it wrote.
struct Chosen {
  uint32_t guess;     // magnitude bits, guessed from a sample; 0: no guess
  uint32_t reached;   // elements that reach the guess
  uint32_t settled;   // not 0: least and last_tie are final
  uint32_t least;     // bits of the least chosen magnitude, as far as they are known
  uint32_t ties;      // elements to choose among those that match the known bits
  uint32_t last_tie;  // index of the last chosen element whose bits equal least
  uint32_t count;     // elements chosen
};

template <typename Maker>
struct SampleBody {
  using Shared = Nothing;
  Maker maker;
  SamplePlan plan;
  uint32_t* bins;

  PS_HD void operator()(const Block& block, Shared&) const {
    block.ForAll(plan.runs * kSampleRun, [&](size_t i) {
      const float value = maker.Corrected(plan.Begin(i / kSampleRun) + i % kSampleRun);
      AtomicAdd(&bins[MagnitudeBits(value) >> kSampleShift], 1);
    });
  }
};

// Finds the bin in which the count from the top reaches `wanted`, and calls use(bin, elements still
// wanted of that bin, elements in it). Runs as one block. REQUIRES: kThreads divides `count`.
template <typename Use>
struct FindBinBody {
  struct Shared {
    BlockScan scan;
  };
  const uint32_t* bins;
  uint32_t count;
  Use use;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    if (use.Done()) return;
    const uint32_t wanted = use.Wanted(), each = count / kThreads;
    // Thread 0 has the bins at the top.
    block.Each([&](uint32_t thread) { shared.scan.value[thread] = SumOf(count - thread * each); });
    shared.scan.Exclusive(block);
    block.Each([&](uint32_t thread) {
      const uint32_t before = shared.scan.value[thread];
      const bool last = thread == kThreads - 1;
      const uint32_t end = last ? shared.scan.total() : shared.scan.value[thread + 1];
      if ((thread > 0 && before >= wanted) || (!last && end < wanted)) return;
      uint32_t left = wanted - before, bin = count - thread * each - 1;
      while (bin > count - (thread + 1) * each && bins[bin] < left) left -= bins[bin--];
      use(bin, left, bins[bin]);
    });
  }

 private:
  // Sums a thread's bins before `end`.
  PS_HD uint32_t SumOf(uint32_t end) const {
    uint32_t sum = 0;
    for (uint32_t b = end - count / kThreads; b < end; ++b) sum += bins[b];
    return sum;
  }
};

struct UseAsGuess {
  Chosen* chosen;
  uint32_t wanted;
  PS_HD bool Done() const { return false; }
  PS_HD uint32_t Wanted() const { return wanted; }
  PS_HD void operator()(uint32_t bin, uint32_t, uint32_t) const {
    const uint32_t guess = bin << kSampleShift;
    chosen->guess = guess < kLeastNotZero ? kLeastNotZero : guess;
  }
};

struct UseAsDigit {
  Chosen* chosen;
  uint32_t shift;
  PS_HD bool Done() const { return chosen->settled != 0; }
  PS_HD uint32_t Wanted() const { return chosen->ties; }
  PS_HD void operator()(uint32_t bin, uint32_t left, uint32_t all) const {
    chosen->least |= bin << shift;
    chosen->ties = left;
    if (shift == 0 && left == all) chosen->settled = 1;  // with every tie
  }
};

// Makes all numbers. Counts those that reach the guess, if there is one, or else, if `bins` is not
// null, all by their first digit.
template <typename Maker>
struct MakeBody {
  struct Shared {
    uint32_t reached;
    uint32_t bins[kFirstBins];
  };
  Maker maker;
  uint32_t elements;
  Chosen* chosen;
  uint32_t* bins;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const uint32_t guess = chosen->guess;
    block.Once([&] { shared.reached = 0; });
    const uint32_t counted = bins == nullptr ? 0 : kFirstBins;
    block.ForEach(counted, [&](size_t b) { shared.bins[b] = 0; });
    const Source in = maker.In();
    block.ForAllTiles(elements, kTile, [&](size_t begin, uint32_t thread) {
      uint32_t reached = 0;
      ForRuns<kTile>(in, begin, elements, thread, [&](size_t i, Four& values, auto count) {
        maker.Keep(i, values, count);
        for (uint32_t k = 0; k < count; ++k) {
          const uint32_t bits = MagnitudeBits(values.at[k]);
          reached += bits >= guess;
          if (counted > 0) AtomicAdd(&shared.bins[bits >> DigitAt(0).shift], 1);
        }
      });
      if (guess != 0 && reached != 0) AtomicAdd(&shared.reached, reached);
    });
    block.Once([&] { AtomicAdd(&chosen->reached, shared.reached); });
    block.ForEach(counted, [&](size_t b) {
      if (shared.bins[b] != 0) AtomicAdd(&bins[b], shared.bins[b]);
    });
  }
};

// Decides what the later passes must find: nothing, if a sample guessed well enough or if all
// numbers that reach `least` are sent; otherwise the `keep` largest.
struct JudgeBody {
  using Shared = Nothing;
  Chosen* chosen;
  uint32_t keep;
  bool sampled;
  bool reaching;
  uint32_t least;

  PS_HD void operator()(const Block& block, Shared&) const {
    block.Once([&] {
      const bool guessed =
          sampled && chosen->reached >= LeastOf(keep) && chosen->reached <= MostOf(keep);
      chosen->settled = reaching || guessed;
      chosen->least = reaching ? least : guessed ? chosen->guess : 0;
      chosen->last_tie = kEveryTie;
      chosen->ties = keep;
    });
  }
};

// Counts numbers by one digit of their bits, if their higher digits are those found so far.
template <typename Maker>
struct DigitsBody {
  static constexpr uint32_t kBins = 2048;
  struct Shared {
    uint32_t bins[kBins];
  };
  Maker maker;
  uint32_t elements;
  const Chosen* chosen;
  Digit digit;
  uint32_t* bins;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    if (chosen->settled != 0) return;
    const uint32_t shift = digit.shift, above = shift + digit.width;
    const uint32_t found = chosen->least, mask = (1u << digit.width) - 1;
    block.ForEach(size_t{mask} + 1, [&](size_t b) { shared.bins[b] = 0; });
    const Source out = maker.Out();
    block.ForAllTiles(elements, kTile, [&](size_t begin, uint32_t thread) {
      ForRuns<kTile>(out, begin, elements, thread, [&](size_t, const Four& values, uint32_t count) {
        for (uint32_t k = 0; k < count; ++k) {
          const uint32_t bits = MagnitudeBits(values.at[k]);
          if (bits >> above == found >> above) AtomicAdd(&shared.bins[(bits >> shift) & mask], 1);
        }
      });
    });
    block.ForEach(size_t{mask} + 1, [&](size_t b) {
      if (shared.bins[b] != 0) AtomicAdd(&bins[b], shared.bins[b]);
    });
  }
};

inline constexpr uint32_t kTieChunk = 4096;  // elements

// ties[c] is the count of numbers in chunk c whose bits equal least. A block has one chunk.
template <typename Maker>
struct CountTiesBody {
  struct Shared {
    uint32_t ties;
  };
  Maker maker;
  uint32_t elements;
  const Chosen* chosen;
  uint32_t* ties;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    if (chosen->settled != 0) return;
    const size_t begin = size_t{block.index()} * kTieChunk;
    const uint32_t least = chosen->least;
    block.Once([&] { shared.ties = 0; });
    block.Each([&](uint32_t thread) {
      uint32_t ties = 0;
      ForRuns<kTieChunk>(maker.Out(), begin, elements, thread,
                         [&](size_t, const Four& values, uint32_t count) {
                           for (uint32_t k = 0; k < count; ++k) {
                             ties += MagnitudeBits(values.at[k]) == least;
                           }
                         });
      if (ties != 0) AtomicAdd(&shared.ties, ties);
    });
    block.Once([&] { ties[block.index()] = shared.ties; });
  }
};

// Finds the last chosen tie. Runs as one block.
template <typename Maker>
struct FindLastTieBody {
  static constexpr uint32_t kEach = kTieChunk / kThreads;
  struct Shared {
    BlockReach reach;
    uint32_t begin;  // of the chunk that holds the last tie
    uint32_t left;   // ties to choose in that chunk
  };
  Maker maker;
  uint32_t elements;
  const uint32_t* ties;
  Chosen* chosen;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    if (chosen->settled != 0) return;
    const uint32_t chunks = (elements + kTieChunk - 1) / kTieChunk;
    shared.reach.Find(block, chunks, chosen->ties, [&](uint32_t c) { return ties[c]; });
    block.Once([&] {
      shared.begin = shared.reach.found * kTieChunk;
      shared.left = shared.reach.left;
    });
    shared.reach.Find(block, kThreads, shared.left, [&](uint32_t part) {
      uint32_t found = 0;
      for (uint32_t k = 0; k < kEach; ++k) found += IsTie(shared.begin + part * kEach + k);
      return found;
    });
    block.Once([&] {
      uint32_t index = shared.begin + shared.reach.found * kEach;
      for (uint32_t left = shared.reach.left - IsTie(index); left > 0; left -= IsTie(index)) {
        ++index;
      }
      chosen->last_tie = index;
    });
  }

 private:
  PS_HD uint32_t IsTie(uint32_t i) const {
    return i < elements && MagnitudeBits(maker.Made(i)) == chosen->least;
  }
};

// See ForTerms. `zeros`: whether zeros are chosen too.
template <typename Maker>
struct ChosenFlag {
  struct Flag {
    uint32_t least, last_tie;
    bool zeros;
    PS_HD bool operator()(uint32_t i, float made) const {
      const uint32_t bits = MagnitudeBits(made);
      return (zeros || bits != 0) && (bits > least || (bits == least && i <= last_tie));
    }
  };
  Maker maker;
  const Chosen* chosen;
  bool zeros;
  PS_HD Source Out() const { return maker.Out(); }
  PS_HD Flag Begin() const { return {chosen->least, chosen->last_tie, zeros}; }
};

// Entries of a slice, in device memory.
struct Entries {
  uint32_t* indices = nullptr;  // ascending
  Chosen* chosen = nullptr;     // how many there are
  uint32_t room = 0;            // size of `indices`
  uint32_t elements = 0;
};

}  // namespace psgd::cuda
