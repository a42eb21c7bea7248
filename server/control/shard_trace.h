// Records when a shard took in the pushes of the first steps, for the run's trace.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "net/message.h"
#include "proto/control.pb.h"

namespace psgd {

// Not thread-safe: belongs to the shard's thread.
class ShardTrace {
 public:
  // Traces `steps` steps, from the first step that it sees.
  ShardTrace(uint32_t shard, uint64_t steps) : shard_(shard), steps_(steps) {}

  // Called before and after the shard takes in a message. Messages that are no push are ignored.
  void Begin(const DataHeader& header);
  void End();
  bool any() const { return !applied_.empty(); }
  // Called when the answers have left. Returns the spans of the pushes that were taken in.
  std::vector<TraceSpan> Committed();

 private:
  const uint32_t shard_;
  const uint64_t steps_;
  std::optional<uint64_t> first_;  // clock
  std::optional<TraceSpan> open_;
  std::vector<TraceSpan> applied_;
};

}  // namespace psgd
