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

// At least one, so that a block stores the sum of no numbers.
PS_HD inline uint32_t StretchesOf(size_t count) {
  return count == 0 ? 1 : static_cast<uint32_t>((count + kSumStretch - 1) / kSumStretch);
}

// Phases in which a block of threads makes and sums a stretch of up to kSumStretch numbers, in
// lanes of doubles.
class StretchSum {
 public:
  alignas(sizeof(Four)) float value[kSumStretch];

  // Sums term(value) over the first `own` values. One thread calls use(sum, bits of the largest
  // magnitude).
  template <typename Term, typename Use>
  PS_HD void Sum(const Block& block, uint32_t own, Term term, Use use) {
    block.Each([&](uint32_t thread) {
      if (thread >= kLanes) return;
      double sum = 0;
      uint32_t top = 0;
      for (uint32_t i = thread; i < own; i += kLanes) {
        sum += term(value[i]);
        top = Larger(top, MagnitudeBits(value[i]));
      }
      lane_[thread] = sum;
      largest_[thread] = top;
    });
    block.Once([&] {
      double sum = 0;
      uint32_t top = 0;
      for (size_t lane = 0; lane < kLanes; ++lane) {
        sum += lane_[lane];
        top = Larger(top, largest_[lane]);
      }
      use(sum, top);
    });
  }

 private:
  double lane_[kLanes];
  uint32_t largest_[kLanes];
};

// The number of elements of a stretch, which begins at `begin`.
PS_HD inline uint32_t StretchLength(size_t begin, size_t all) {
  return static_cast<uint32_t>(begin >= all                ? 0
                               : all - begin < kSumStretch ? all - begin
                                                           : kSumStretch);
}

// Adds up what the blocks of a launch sum: each stores its sums, and the one that ends last adds
// them up in order and hands the result to `use`.
template <typename Use>
struct PartSums {
  struct Shared {
    double part[kThreads];
    double sum;
    uint32_t ended;
  };
  double* part;
  uint32_t* ended;
  Use use;  // use(sum), called by one thread

  // Phases at the end of each block, once its own parts are stored. `count`: of parts.
  PS_HD void Fold(const Block& block, size_t count, Shared& shared) const {
    if (!EndsLast(block, block.count(), ended, &shared.ended)) return;
    block.Once([&] { shared.sum = 0; });
    for (size_t begin = 0; begin < count; begin += kThreads) {
      const size_t own = count - begin < kThreads ? count - begin : kThreads;
      block.ForEach(own, [&](size_t i) { shared.part[i] = part[begin + i]; });
      block.Once([&] {
        double sum = shared.sum;  // in a register
#ifdef __CUDACC__
#pragma unroll 16  // loads that do not wait for each other
#endif
        for (size_t i = 0; i < own; ++i) sum += shared.part[i];
        shared.sum = sum;
      });
    }
    block.Once([&] { use(shared.sum); });
  }
};

template <typename Queue, typename Use>
PartSums<Use> NewSums(Queue& queue, size_t parts, const Use& use) {
  uint32_t* const ended = queue.template Scratch<uint32_t>(1);
  queue.Zero(ended, 1);
  return {queue.template Scratch<double>(parts), ended, use};
}

// Sums squares. If `made` is not null, it gets the numbers. If `largest` is not null, *largest is
// raised to the bits of the largest magnitude. A block has one stretch.
template <typename Use>
struct SquaresBody {
  struct Shared {
    StretchSum stretch;
    typename PartSums<Use>::Shared fold;
  };
  Source source;
  uint32_t count;
  float* made;
  uint32_t* largest;
  PartSums<Use> sums;

  PS_HD void operator()(const Block& block, Shared& shared) const {
    const size_t begin = size_t{block.index()} * kSumStretch;
    block.Each([&](uint32_t thread) {
      ForRuns<kSumStretch>(source, begin, count, thread,
                           [&](size_t i, const Four& values, auto own) {
                             StoreShared(shared.stretch.value + (i - begin), values, own);
                             if (made != nullptr) StoreFour(made + i, values, own);
                           });
    });
    shared.stretch.Sum(
        block, StretchLength(begin, count),
        [](float value) { return static_cast<double>(value) * value; },
        [&](double sum, uint32_t top) {
          sums.part[block.index()] = sum;
          if (largest != nullptr) AtomicMax(largest, top);
        });
    sums.Fold(block, block.count(), shared.fold);
  }
};

template <typename Queue, typename Use>
void SumSquares(Queue& queue, const Source& source, uint32_t count, float* made, uint32_t* largest,
                const Use& use) {
  const uint32_t stretches = StretchesOf(count);
  queue.Launch(stretches,
               SquaresBody<Use>{source, count, made, largest, NewSums(queue, stretches, use)});
}

}  // namespace psgd::cuda
