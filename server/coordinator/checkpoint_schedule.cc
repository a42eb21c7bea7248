#include "server/coordinator/checkpoint_schedule.h"

#include <utility>

#include "proto/local_steps.h"
#include "server/coordinator/run_totals.h"

namespace psgd {
namespace {

CheckpointUnderWayRecord ToRecord(const CoordinatorSnapshot& snapshot, uint64_t after) {
  const auto& [checkpoint, name, position, hyper, total, evaluations] =
      snapshot;  // so that no field is forgotten
  CheckpointUnderWayRecord record;
  record.set_id(checkpoint);
  record.set_name(name);
  *record.mutable_position() = ToRecord(position);
  *record.mutable_hyper() = hyper;
  *record.mutable_total() = total;
  record.mutable_evaluations()->Add(evaluations.begin(), evaluations.end());
  record.set_after(after);
  return record;
}

CoordinatorSnapshot FromRecord(const CheckpointUnderWayRecord& record) {
  CoordinatorSnapshot snapshot;
  snapshot.checkpoint = record.id();
  snapshot.name = record.name();
  snapshot.position = FromRecord(record.position());
  snapshot.hyper = record.hyper();
  snapshot.total = record.total();
  snapshot.evaluations.assign(record.evaluations().begin(), record.evaluations().end());
  return snapshot;
}

}  // namespace

CoordinatorSnapshot SnapshotOf(const CheckpointManifest& manifest) {
  CoordinatorSnapshot snapshot;
  snapshot.checkpoint = manifest.id();
  snapshot.position.epoch = manifest.epoch();
  snapshot.position.clock = manifest.clock();
  snapshot.position.steps = manifest.steps();
  if (manifest.steps() == 0) {  // an earlier version wrote it
    snapshot.position.steps = manifest.clock() * StepsOfClock(manifest.config().local());
  }
  snapshot.position.remaining = BatchQueue(manifest.remaining());
  snapshot.position.repeated = manifest.repeated_batches();
  snapshot.position.lost = manifest.lost_batches();
  snapshot.hyper = manifest.hyper();
  snapshot.total = manifest.total();
  snapshot.evaluations.assign(manifest.evaluations().begin(), manifest.evaluations().end());
  return snapshot;
}

void CheckpointSchedule::GoOnFrom(uint64_t id, const LedgerPosition& position) {
  next_id_ = id + 1;
  latest_ = position;
}

absl::StatusOr<uint64_t> CheckpointSchedule::Request(const std::string& name) {
  if (!name.empty() && !next_name_.empty() && name != next_name_) {
    return FailedPreconditionError("the next checkpoint will be ", next_name_,
                                   "; ask for another name once it is taken");
  }
  requested_ = true;
  if (!name.empty()) next_name_ = name;
  return next_id_;
}

bool CheckpointSchedule::Due(const LedgerPosition& position, uint64_t batches_per_epoch) const {
  if (under_way_) return false;
  if (requested_) return true;
  if (every_.has_epochs() && every_.epochs() > 0) {
    const uint32_t batches = static_cast<uint32_t>(batches_per_epoch);
    const double last = latest_.clock == 0 ? 0 : ProgressAt(latest_, batches);
    return ProgressAt(position, batches) - last >= every_.epochs() - 1e-9;
  }
  if (every_.has_steps() && every_.steps() > 0) {
    return position.clock >= latest_.clock + static_cast<uint64_t>(every_.steps());
  }
  return false;
}

uint64_t CheckpointSchedule::Begin(CoordinatorSnapshot state, uint64_t after, bool last) {
  state.checkpoint = next_id_++;
  state.name = std::exchange(next_name_, "");
  requested_ = false;
  last_taken_ |= last;
  latest_ = state.position;
  after_ = after;
  return under_way_.emplace(std::move(state)).checkpoint;
}

void CheckpointSchedule::GiveBack(const ReturnedBatch& batch) {
  if (!under_way_ || batch.segment > after_) return;
  LedgerPosition& position = under_way_->position;
  if (batch.epoch == position.epoch) {
    position.remaining.Add(batch.batch);
    ++position.repeated;
  } else {
    ++position.lost;
  }
}

void CheckpointSchedule::Count(const WorkerReport& report) {
  if (under_way_) AddReport(report, &under_way_->total);
}

void CheckpointSchedule::CountGone(const WorkerReport& unpushed, double residual_norm) {
  if (under_way_) AddGone(unpushed, residual_norm, &under_way_->total);
}

void CheckpointSchedule::LackCounts() {
  if (under_way_) under_way_->total.set_counts_incomplete(true);
}

bool CheckpointSchedule::End(uint64_t id) {
  if (!under_way_ || under_way_->checkpoint != id) return false;
  under_way_.reset();
  return true;
}

void CheckpointSchedule::Save(CoordinatorRecord* record) const {
  record->set_next_checkpoint(next_id_);
  record->set_checkpoint_requested(requested_);
  record->set_checkpoint_name(next_name_);
  record->set_final_checkpoint_taken(last_taken_);
  *record->mutable_last_checkpoint() = ToRecord(latest_);
  if (under_way_) *record->mutable_under_way() = ToRecord(*under_way_, after_);
}

void CheckpointSchedule::Restore(const CoordinatorRecord& record) {
  next_id_ = record.next_checkpoint();
  requested_ = record.checkpoint_requested();
  next_name_ = record.checkpoint_name();
  last_taken_ = record.final_checkpoint_taken();
  latest_ = FromRecord(record.last_checkpoint());
  if (record.has_under_way()) {
    under_way_ = FromRecord(record.under_way());
    after_ = record.under_way().after();
  }
}

}  // namespace psgd
