// What each op of a training step reaches of its device's limits.
#pragma once

#include <vector>

#include "bench/bench_row.h"
#include "common/status.h"
#include "engine/runtime/network.h"

namespace psgd {

// Rows for each kind of op, then for the slowest nodes, slowest first. The limits are measured with
// the same backend and options: the GB/s of a sum of two large tensors, and the GFLOP/s of a
// product of two large matrices. `ratio` is the larger share of the two. `extra` has ms, gflops and
// share (of the time of all kernels). REQUIRES: as Network::TimeNodes.
absl::StatusOr<std::vector<BenchRow>> MeasureRoofline(Network* network,
                                                      const NetworkOptions& options);

}  // namespace psgd
