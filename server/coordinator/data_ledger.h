// Which batches of the epoch are still to be dealt, and to whom. No IO.
//
// An epoch's batches are dealt in segments: a segment is a stretch of clocks with a fixed set of
// workers, where the worker of rank r of n takes every n-th batch. With local steps a clock has
// several batches of each worker, perhaps more of one than of another; they are dealt in turn, so
// that the last clock of an epoch is short for all. Membership changes between segments only.
// Batches that a dead worker had not reported as done are dealt again in the same epoch, so every
// sample is seen at least once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "proto/journal.pb.h"
#include "proto/model.pb.h"
#include "server/coordinator/batch_queue.h"

namespace psgd {

struct LedgerOptions {
  uint32_t epochs = 1;
  uint32_t batches_per_epoch = 1;
  uint32_t segment_clocks = 64;
  uint64_t max_steps = 0;  // for the member with the most steps; 0: no limit
};

// The position of training between two segments. A checkpoint keeps it.
struct LedgerPosition {
  uint32_t epoch = 0;    // the epoch being dealt
  uint64_t clock = 0;    // clock of every member when the next segment starts
  uint64_t steps = 0;    // steps of the member with most
  BatchQueue remaining;  // batches of this epoch still to be dealt
  // Returned batches that were dealt again, and returned batches that came too late: their epoch
  // was over.
  uint64_t repeated = 0;
  uint64_t lost = 0;
};

LedgerPositionRecord ToRecord(const LedgerPosition& position);
LedgerPosition FromRecord(const LedgerPositionRecord& record);

// A batch that its worker did not finish.
struct ReturnedBatch {
  uint64_t segment = 0;
  uint32_t epoch = 0;
  uint32_t batch = 0;
};

// The part of a segment that its member `worker` is told: all batches of thousands of workers are a
// megabyte.
Segment ShareOf(const Segment& segment, uint32_t worker);

// Training dealt up to `position`, in epochs.
double ProgressAt(const LedgerPosition& position, uint32_t batches_per_epoch);

// Not thread-safe.
class DataLedger {
 public:
  explicit DataLedger(const LedgerOptions& options);
  DataLedger(const LedgerOptions& options, const LedgerPosition& resume);
  DataLedger(const LedgerOptions& options, const LedgerRecord& record);
  LedgerRecord Save() const;

  // Deals the next segment to `workers`; nullopt when training is over. `steps`: batches of each
  // worker in a clock; empty: 1. REQUIRES: `workers` is ascending and not empty.
  std::optional<Segment> Deal(const std::vector<uint32_t>& workers,
                              const std::vector<uint32_t>& steps = {});
  // The worker is gone after it finished `clock`. Its undone batches are dealt again.
  std::vector<ReturnedBatch> Return(uint32_t worker, uint64_t clock);

  // No worker is in segments up to `id` any more.
  void Forget(uint64_t id);

  const Segment* Find(uint64_t id) const;
  // 0 before the first segment.
  uint64_t latest() const { return segments_.empty() ? 0 : segments_.rbegin()->first; }
  // True when the segment was the last one of its epoch when it was dealt.
  bool EndsEpoch(uint64_t id) const;
  // Whether a segment of the epoch began in these clocks: batches that were returned made it go on.
  bool WentOn(uint32_t epoch, uint64_t from, uint64_t to) const;
  bool Finished() const;
  const LedgerPosition& position() const { return position_; }
  // Training dealt so far, in epochs.
  double EpochProgress() const { return ProgressAt(position_, options_.batches_per_epoch); }
  // The part of EpochProgress that the workers have done. `clock` says how far each worker is.
  double Done(const std::function<uint64_t(uint32_t worker)>& clock) const;

 private:
  void StartEpoch(uint32_t epoch);
  // The clocks of the next segment, if the member with most takes so many steps in each.
  uint32_t ClockBudget(uint64_t steps) const;

  const LedgerOptions options_;
  LedgerPosition position_;
  std::map<uint64_t, LedgerRecord::Dealt> segments_;
  uint64_t next_id_ = 1;
};

}  // namespace psgd
