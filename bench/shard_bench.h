// Push and pull through a real shard: session, transport, shard and optimizer, in two processes
// with one core a side.
#pragma once

#include <vector>

#include "bench/bench_row.h"
#include "common/status.h"
#include "proto/config.pb.h"

namespace psgd {

struct ShardBenchOptions {
  ClusterConfig::Transport transport = ClusterConfig::IPC;
  CodecConfig codec;  // of pushes; unset: none
  uint32_t slice_bytes = 4u << 20;
  int slices = 8;
  int workers = 1;  // sessions, taking turns on one core
  int rounds = 20;  // counted; as many again warm up
};

// Two rows, push and pull, in bytes of fp32 weights a second against the machine's memcpy in the
// same run. `verified`: the weights at the end are what the pushes must have made of them. Forks:
// call it from a process that has no threads.
absl::StatusOr<std::vector<BenchRow>> RunShardBench(const ShardBenchOptions& options);

}  // namespace psgd
