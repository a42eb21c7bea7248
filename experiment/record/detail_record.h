// A record of metrics.jsonl with what each worker and shard is at: what the dashboard shows beside
// the curves.
#pragma once

#include "experiment/record/records.h"
#include "proto/control.pb.h"

namespace psgd {

// Counts are since the run began, latencies (in milliseconds; null: nothing was measured) of what
// came since `before`, which may be empty.
Record DetailRecord(const StatusReply& status, const StatusReply& before);

// Says when the next one is due: every second at first, and later so rarely that a run of any
// length leaves a few hundred.
class DetailSchedule {
 public:
  // Whether one is due `seconds` after the run began; then the next is set.
  bool Due(double seconds);

 private:
  double next_ = 0;
};

}  // namespace psgd
