// trace.json: what workers and shards did in a run's first steps, for chrome://tracing and
// Perfetto.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "common/status.h"
#include "proto/control.pb.h"

namespace psgd {

struct PlacedSpan {
  uint32_t server = 1;  // that has the shard, where it is a shard's
  TraceSpan span;
};

// Thread-safe.
class TraceFile {
 public:
  // Any thread; never waits. What is beyond some hundred thousand spans is left out.
  void Add(uint32_t server, std::vector<TraceSpan> spans);
  // Replaces the file with what there is so far, if that is more than it has.
  absl::Status Write(const std::string& path);

 private:
  std::mutex mutex_;  // guards everything below
  std::vector<PlacedSpan> spans_;
  size_t written_ = 0;
};

// The spans in Chrome's trace format: a process for each server and worker; a row for each worker's
// steps and one for its pushes to each shard, a row a shard, and arrows from a push that leaves
// over the shard that takes it in to its acknowledgement. Times begin with the first span.
std::string TraceJson(const std::vector<PlacedSpan>& spans);

}  // namespace psgd
