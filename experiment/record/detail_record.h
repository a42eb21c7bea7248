// A record of metrics.jsonl with the state of each worker and shard, which the dashboard shows
// beside the curves.
#pragma once

#include "experiment/record/records.h"
#include "proto/control.pb.h"

namespace psgd {

// Counts are totals since the run began. Latencies are in milliseconds and cover the time since
// `before`, which may be empty. Null: nothing was measured.
Record DetailRecord(const StatusReply& status, const StatusReply& before);

// Whether anyone has reported the loss and the accuracy of training. A program need not.
bool TellsLoss(const StatusReply& status);
bool TellsAccuracy(const StatusReply& status);
// Null: the workers' programs have it.
Record LearningRate(const StatusReply& status);

// Schedules the records: every second at first, later so rarely that a run of any length writes a
// few hundred. A record of many workers and shards takes long to write, so it comes more rarely.
class DetailSchedule {
 public:
  // Returns whether a record with so many workers and shards is due `seconds` after the run began.
  // If so, sets the next time.
  bool Due(double seconds, int parts);

 private:
  double next_ = 0;
};

}  // namespace psgd
