// Push and pull through a real shard: session, transport, shard and optimizer, in two processes
// with one core each.
#pragma once

#include <vector>

#include "bench/bench_row.h"
#include "common/status.h"
#include "proto/config.pb.h"

namespace psgd {

struct ShardBenchOptions {
  ClusterConfig::Transport transport = ClusterConfig::IPC;
  CodecConfig codec;  // for pushes; unset: none
  uint32_t slice_bytes = 4u << 20;
  int slices = 8;
  int workers = 1;  // sessions that take turns on one core
  int rounds = 20;  // counted; the same number warms up
};

// Returns two rows, push and pull, in bytes of fp32 weights a second, compared with the machine's
// memcpy in the same run. `verified`: the final weights are what the pushes must produce. Forks.
// REQUIRES: the process has no threads.
absl::StatusOr<std::vector<BenchRow>> RunShardBench(const ShardBenchOptions& options);

}  // namespace psgd
