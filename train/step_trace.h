// Records what this worker does in its first steps, and when, for the run's trace.
#pragma once

#include <optional>
#include <vector>

#include "common/clock.h"
#include "net/message.h"
#include "proto/control.pb.h"

namespace psgd {

// Not thread-safe: belongs to the thread that uses the session.
class StepTrace {
 public:
  // Keeps the spans of so many steps.
  void Begin(uint64_t steps, uint32_t worker);

  // Adds a span of the step that leads to `clock`.
  void Add(TraceSpan::Kind kind, uint64_t clock, Time start, Time end);
  void AddPush(const DataHeader& push, Time sent, Time acknowledged);

  // Moves the spans since the last call to the report. Their times are of this process' clock.
  void MoveTo(WorkerReport* report);

 private:
  TraceSpan* NewSpan(TraceSpan::Kind kind, uint64_t clock, Time start, Time end);

  uint64_t steps_ = 0;
  uint32_t worker_ = 0;
  std::optional<uint64_t> first_;  // the first traced clock
  std::vector<TraceSpan> spans_;
};

}  // namespace psgd
