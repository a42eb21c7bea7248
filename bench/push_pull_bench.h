// Push and pull through a real shard: session, transport, shard and optimizer, in two processes.
#pragma once

#include <vector>

#include "bench/bench_row.h"
#include "common/status.h"
#include "proto/config.pb.h"

namespace psgd {

struct PushPullBenchOptions {
  ClusterConfig::Transport transport = ClusterConfig::IPC;
  OptimizerConfig optimizer;  // unset: SGD, without momentum
  CodecConfig codec;          // for pushes; unset: none
  uint32_t slice_bytes = 4u << 20;
  int slices = 8;        // all are on the way at once
  int workers = 1;       // sessions that take turns on one core
  int rounds = 20;       // counted; the same number warms up
  int staleness = -1;    // consistency.staleness
  bool apart = false;    // each slice travels in messages of its own; otherwise small ones share
  int pause_ms = 0;      // before each push and each pull, so that both sides sleep
  bool copy = false;     // pulled weights are copied to the memory of the caller, as a trainer does
  bool pin = false;      // each process has a core of its own; otherwise the kernel chooses
  bool profile = false;  // also says where the time goes, which costs some
};

// Returns three rows in bytes of fp32 weights a second, compared with the machine's memcpy in the
// same run: push, pull, and both, where the pull is asked for before the pushes are answered, as in
// a step. extra: "exchange_us", the median time of one exchange of all slices;
// "in_flight", the slices that are on the way at once, of all workers; "messages" that a worker
// sends and receives in an exchange.
// With `profile` also what a slice takes on each side, as the mean of all rounds: processor time,
// the kernel's part of it, switches between threads, page faults. `verified`: the final weights are
// what the pushes must produce. Forks.
// REQUIRES: the process has no threads.
absl::StatusOr<std::vector<BenchRow>> RunPushPullBench(const PushPullBenchOptions& options);

}  // namespace psgd
