// When a shard took in the pushes of the first steps, for the run's trace.
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
  // Of so many steps from the first one that it sees.
  ShardTrace(uint32_t shard, uint64_t steps) : shard_(shard), steps_(steps) {}

  // Around taking in a message; what is no push is let pass.
  void Begin(const DataHeader& header);
  void End();
  bool any() const { return !applied_.empty(); }
  // The answers to what was taken in have left: what there is to tell of it.
  std::vector<TraceSpan> Committed();

 private:
  const uint32_t shard_;
  const uint64_t steps_;
  std::optional<uint64_t> first_;  // clock
  std::optional<TraceSpan> open_;
  std::vector<TraceSpan> applied_;
};

}  // namespace psgd
