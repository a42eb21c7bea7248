// Sums of floats in the order of compression/lanes.h, the same as on the host.
#pragma once

#include "compression/cuda/coder.h"
#include "compression/lanes.h"
#include "compression/sparse/sample_plan.h"

namespace psgd::cuda {

// The teams of a block of threads. Each team has one thread per lane.
inline constexpr uint32_t kTeams = kThreads / kLanes;

PS_HD inline uint32_t Larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

PS_HD inline double SumOfLanes(const float* lanes) {
  double sum = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) sum += lanes[lane];
  return sum;
}

inline uint32_t StretchesOf(size_t count) {
  return static_cast<uint32_t>((count + kSumStretch - 1) / kSumStretch);
}

// part[b] is the sum of term.Of(value) over the values term.Make(i) of stretch b, i < count(),
// added in lanes of doubles. If `largest` is not null, *largest is raised to the bits of the
// largest magnitude. A block of threads has one stretch.
template <typename Count, typename Term>
struct StretchSumBody {
  struct Shared {
    float value[kSumStretch];
    double sum[kLanes];
    uint32_t largest[kLanes];
  };
  Count count;
  Term term;
  double* part;
  uint32_t* largest;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const size_t begin = size_t{block.index()} * kSumStretch, all = count();
    const size_t own = begin >= all ? 0 : all - begin < kSumStretch ? all - begin : kSumStretch;
    block.ForEach(own, [&](size_t i) { shared.value[i] = term.Make(begin + i); });
    block.Each([&](uint32_t thread) {
      if (thread >= kLanes) return;
      double sum = 0;
      uint32_t top = 0;
      for (size_t i = thread; i < own; i += kLanes) {
        sum += term.Of(shared.value[i]);
        top = Larger(top, MagnitudeBits(shared.value[i]));
      }
      shared.sum[thread] = sum;
      shared.largest[thread] = top;
    });
    block.Once([&] {
      double sum = 0;
      uint32_t top = 0;
      for (size_t lane = 0; lane < kLanes; ++lane) {
        sum += shared.sum[lane];
        top = Larger(top, shared.largest[lane]);
      }
      part[block.index()] = sum;
      if (largest != nullptr) AtomicMax(largest, top);
    });
  }
};

// Adds up numbers in order and hands the sum to `use`. Runs as one block.
template <typename Count, typename Use>
struct FoldBody {
  struct Shared {
    double part[kThreads];
    double sum;
  };
  const double* part;
  Count count;
  Use use;  // use(sum), called by one thread

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const size_t all = count();
    block.Once([&] { shared.sum = 0; });
    for (size_t begin = 0; begin < all; begin += kThreads) {
      const size_t own = all - begin < kThreads ? all - begin : kThreads;
      block.ForEach(own, [&](size_t i) { shared.part[i] = part[begin + i]; });
      block.Once([&] {
        double sum = shared.sum;  // in a register
        for (size_t i = 0; i < own; ++i) sum += shared.part[i];
        shared.sum = sum;
      });
    }
    block.Once([&] { use(shared.sum); });
  }
};

struct KnownCount {
  size_t count;
  PS_HD size_t operator()() const { return count; }
};

}  // namespace psgd::cuda
