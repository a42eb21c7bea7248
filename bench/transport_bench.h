// The speed of a transport alone between two processes: no session, shard or optimizer.
#pragma once

#include <vector>

#include "bench/bench_row.h"
#include "common/status.h"
#include "proto/config.pb.h"

namespace psgd {

struct TransportBenchOptions {
  ClusterConfig::Transport transport = ClusterConfig::IPC;
  size_t message_bytes = 4u << 20;  // one payload
  int messages = 500;               // timed in each direction
  int window = 8;                   // on the way at once
  int silent = 0;                   // further peers of the shard, which were heard once
};

// Returns rows named TRANSPORT/push (payloads one way, acknowledged) and TRANSPORT/pull (small
// requests, payloads back), compared with memcpy by one core in the same run. extra:
// "message_bytes", "messages_per_second". Timing starts only after payloads were echoed unchanged.
// Forks both sides. REQUIRES: the process has no threads.
absl::StatusOr<std::vector<BenchRow>> RunTransportBench(const TransportBenchOptions& options);

}  // namespace psgd
