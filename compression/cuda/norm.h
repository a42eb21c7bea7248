// The squared norm of a residual, computed without copying the residual to the host.
#pragma once

#include "compression/cuda/sums.h"

namespace psgd::cuda {

struct StoreSum {
  double* to;
  PS_HD void operator()(double sum) const { *to = sum; }
};

template <typename Queue>
void SumSquares(Queue& queue, const float* values, uint32_t count, double* to) {
  const uint32_t stretches = StretchesOf(count);
  double* part = queue.template Scratch<double>(stretches);
  Source source;
  source.gradient = values;
  queue.Launch(stretches, SquaresBody{source, count, nullptr, part, nullptr});
  queue.Launch(1, FoldBody<KnownCount, StoreSum>{part, {stretches}, {to}});
}

}  // namespace psgd::cuda
