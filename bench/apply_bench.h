// How fast shards turn payloads into weights, each on a core of its own, compared with the stream
// triad of as many cores in the same run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/bench_row.h"
#include "common/status.h"

namespace psgd {

struct ApplyBenchOptions {
  uint32_t slice = 1u << 20;  // elements; all slices together must be far larger than the caches
  int slices = 32;            // dealt to the shards
  int shards = 1;             // each on a core of its own
  int repeats = 7;            // passes over all slices; the best counts
  double density = 0.01;      // of topk's payloads
  std::vector<std::string> optimizers;  // by name; empty: all
};

// Returns rows named OPTIMIZER/CODEC, for each optimizer with none and with topk. They time the
// shard's own update (SliceUpdater::Apply), after a few passes were checked against a scalar update
// in double. gbps counts memory traffic, as triad does: payload read, weights and optimizer state
// read and written. If a sparse payload is applied in O(entries), only the entries count. extra:
// "parameter_gbps" (fp32 weights updated a second), "median_gbps", and "open_gbps" (payload checked
// before it is applied, in fp32 gradient a second). An unknown optimizer name is an error, and so
// are more shards than cores.
absl::StatusOr<std::vector<BenchRow>> RunApplyBench(const ApplyBenchOptions& options);

}  // namespace psgd
