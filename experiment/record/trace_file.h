// Writes trace.json: what workers and shards did in a run's first steps, for chrome://tracing and
// Perfetto.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "common/status.h"
#include "proto/control.pb.h"

namespace psgd {

struct PlacedSpan {
  uint32_t server = 1;  // the server that holds the shard, for a shard's span
  TraceSpan span;
};

// Thread-safe.
class TraceFile {
 public:
  // Can be called on any thread and never blocks. Drops spans beyond a few hundred thousand.
  void Add(uint32_t server, std::vector<TraceSpan> spans);
  // Rewrites the file if there are new spans.
  absl::Status Write(const std::string& path);

 private:
  std::mutex mutex_;  // guards everything below
  std::vector<PlacedSpan> spans_;
  size_t written_ = 0;
};

// The spans in Chrome's trace format. Each server and worker is a process. A worker has a row for
// its steps and a row for its pushes to each shard; a shard has one row. Arrows lead from a sent
// push through the shard that applies it to its acknowledgement. The first span starts at time 0.
std::string TraceJson(const std::vector<PlacedSpan>& spans);

}  // namespace psgd
