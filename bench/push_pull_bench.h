// What a transport alone can carry between two processes: no session, shard or optimizer.
#pragma once

#include <vector>

#include "bench/bench_row.h"
#include "common/status.h"
#include "proto/config.pb.h"

namespace psgd {

struct TransportBenchOptions {
  ClusterConfig::Transport transport = ClusterConfig::IPC;
  size_t message_bytes = 4u << 20;  // one payload
  int messages = 500;               // timed, each way
  int window = 8;                   // under way at once
  bool one_core = true;             // pin each side to a core of its own, IO threads included
};

// Rows named TRANSPORT/push (payloads one way, acknowledged) and TRANSPORT/pull (small requests,
// payloads back), against memcpy by one core in the same run. extra: "message_bytes",
// "messages_per_second". Nothing is timed unless payloads were first echoed unchanged. Forks both
// sides: call it from a process that has no threads.
absl::StatusOr<std::vector<BenchRow>> RunTransportBench(const TransportBenchOptions& options);

}  // namespace psgd
