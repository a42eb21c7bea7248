// The squared norm of a residual, computed without copying the residual to the host.
#pragma once

#include "compression/cuda/sums.h"

namespace psgd::cuda {

struct StoreSum {
  double* to;
  PS_HD void operator()(double sum) const { *to = sum; }
};

template <typename Queue>
void StoreSquaredNorm(Queue& queue, const float* values, uint32_t count, double* to) {
  Source source;
  source.gradient = values;
  SumSquares(queue, source, count, nullptr, nullptr, StoreSum{to});
}

}  // namespace psgd::cuda
