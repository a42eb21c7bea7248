// When the run's checkpoints are taken, and what the one under way keeps of the coordinator. No IO.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "proto/checkpoint.pb.h"
#include "proto/codec_config.pb.h"
#include "proto/control.pb.h"
#include "proto/journal.pb.h"
#include "server/coordinator/data_ledger.h"

namespace psgd {

// The coordinator's state in a checkpoint. A resumed run starts from it.
struct CoordinatorSnapshot {
  uint64_t checkpoint = 0;
  std::string name = {};  // name of the checkpoint; empty: none
  LedgerPosition position;
  HyperParameters hyper;
  WorkerReport total;
  std::vector<EvalResult> evaluations;
};

// What a sealed checkpoint has of it. The name is not in force any more.
CoordinatorSnapshot SnapshotOf(const CheckpointManifest& manifest);

// At most one checkpoint is under way. An id is given once. A name belongs to the next checkpoint
// that begins. Not thread-safe.
class CheckpointSchedule {
 public:
  // `every`: training between two checkpoints; zero: only requested ones and the last are taken.
  explicit CheckpointSchedule(const Progress& every) : every_(every) {}
  // The run goes on from a checkpoint at `position`. Ids up to `id` are taken.
  void GoOnFrom(uint64_t id, const LedgerPosition& position);

  // Requests a checkpoint at the next boundary and returns its id. `name`: empty or unused.
  absl::StatusOr<uint64_t> Request(const std::string& name);
  // A checkpoint has to begin at `position`.
  bool Due(const LedgerPosition& position, uint64_t batches_per_epoch) const;
  // The checkpoint at the end of the run is still to begin, and none is under way.
  bool LacksLast() const { return !under_way_ && !last_taken_; }
  // A checkpoint has begun before, in this run or the one that it goes on from.
  bool HasEarlier() const { return next_id_ > 1; }
  bool LastUnderWay() const { return under_way_ && last_taken_; }

  // Begins the next checkpoint, whose boundary is the end of the segment `after`, and returns its
  // id. Takes all of `state` but id and name. `last`: the run ends with it. REQUIRES: none is under
  // way.
  uint64_t Begin(CoordinatorSnapshot state, uint64_t after, bool last);
  // The worker of this batch is gone. A checkpoint under way must list all batches that are not
  // done up to its boundary.
  void GiveBack(const ReturnedBatch& batch);
  // Adds to the total of the one under way what a worker did before its boundary.
  void Count(const WorkerReport& report);
  // See AddGone: the worker is gone before that boundary.
  void CountGone(const WorkerReport& unpushed, double residual_norm);
  // It is not fully known what a worker did before the boundary of the checkpoint under way.
  void LackCounts();
  // Ends the checkpoint. False: it is not under way.
  bool End(uint64_t id);

  const std::optional<CoordinatorSnapshot>& under_way() const { return under_way_; }
  // The checkpoint under way is taken at the end of this segment. Nullopt: none is under way.
  std::optional<uint64_t> boundary() const {
    return under_way_ ? std::optional(after_) : std::nullopt;
  }
  // A checkpoint is under way whose boundary is the end of this segment.
  bool EndsAfter(uint64_t segment) const { return under_way_ && segment == after_; }

  void Save(CoordinatorRecord* record) const;
  // REQUIRES: no call of another method that changes this object.
  void Restore(const CoordinatorRecord& record);

 private:
  const Progress every_;
  uint64_t next_id_ = 1;
  bool requested_ = false;
  std::string next_name_;    // of the requested checkpoint
  bool last_taken_ = false;  // or under way
  LedgerPosition latest_;    // position of the latest checkpoint that began
  std::optional<CoordinatorSnapshot> under_way_;
  uint64_t after_ = 0;  // boundary of the one under way
};

}  // namespace psgd
