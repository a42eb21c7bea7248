// The part of CoordinatorCore that is written down and made again.
#include "server/coordinator_core.h"

namespace psgd {
namespace {

LedgerPositionRecord ToRecord(const LedgerPosition& position) {
  const auto& [epoch, clock, remaining] = position;  // so that none is forgotten
  LedgerPositionRecord record;
  record.set_epoch(epoch);
  record.set_clock(clock);
  *record.mutable_remaining() = remaining.Save();
  return record;
}

LedgerPosition FromRecord(const LedgerPositionRecord& record) {
  return {record.epoch(), record.clock(), BatchQueue(record.remaining())};
}

CoordinatorMemberRecord ToRecord(const MemberState& member) {
  CoordinatorMemberRecord record;
  *record.mutable_key() = member.key;
  record.set_name(member.name);
  record.set_device(member.device);
  record.set_attempt(member.attempt);
  record.set_live(member.live);
  record.set_registered(member.registered);
  record.set_note(member.note);
  record.set_clock(member.clock);
  record.set_joined_after(member.joined_after);
  record.set_finished_segment(member.finished_segment);
  *record.mutable_choices() = member.choices;
  record.set_residual_norm(member.residual_norm);
  record.set_leaving(member.leaving);
  record.set_reports(member.reports);
  return record;
}

MemberState FromRecord(const CoordinatorMemberRecord& record, Time now) {
  MemberState member;
  member.key = record.key();
  member.name = record.name();
  member.device = record.device();
  member.attempt = record.attempt();
  member.live = record.live();
  member.registered = record.registered();
  member.note = record.note();
  member.clock = record.clock();
  member.joined_after = record.joined_after();
  member.finished_segment = record.finished_segment();
  member.choices = record.choices();
  member.residual_norm = record.residual_norm();
  member.leaving = record.leaving();
  member.reports = record.reports();
  member.last_heard = member.last_report = now;
  return member;
}

CheckpointUnderWayRecord ToRecord(const CoordinatorSnapshot& snapshot, uint64_t after) {
  const auto& [checkpoint, name, position, hyper, total, evaluations] = snapshot;  // so that none is forgotten
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

LedgerRecord DataLedger::Save() const {
  LedgerRecord record;
  *record.mutable_position() = ToRecord(position_);
  for (const auto& [id, dealt] : segments_) {
    LedgerRecord::Dealt* saved = record.add_dealt();
    *saved->mutable_segment() = dealt.segment;
    saved->set_ends_epoch(dealt.ends_epoch);
    saved->mutable_returned()->Add(dealt.returned.begin(), dealt.returned.end());
  }
  record.set_next_id(next_id_);
  record.set_repeated_batches(repeated_);
  record.set_lost_batches(lost_);
  return record;
}

DataLedger::DataLedger(const LedgerOptions& options, const LedgerRecord& record)
    : options_(options),
      position_(FromRecord(record.position())),
      next_id_(record.next_id()),
      repeated_(record.repeated_batches()),
      lost_(record.lost_batches()) {
  for (const LedgerRecord::Dealt& saved : record.dealt()) {
    segments_[saved.segment().id()] = {
        saved.segment(), saved.ends_epoch(), {saved.returned().begin(), saved.returned().end()}};
  }
}

CoordinatorRecord CoordinatorCore::Save(Time now) const {
  CoordinatorRecord record;
  if (model_ != nullptr) {
    *record.mutable_model() = *model_;
    *record.mutable_placement() = *placement_;
    record.set_batches_per_epoch(batches_per_epoch_);
    *record.mutable_ledger() = ledger_->Save();
  }
  *record.mutable_hyper() = hyper_;
  for (const auto& [worker, member] : members_.all()) *record.add_members() = ToRecord(member);
  record.set_state(state_);
  record.set_draining(draining_);
  record.set_drain_failed(drain_failed_);
  record.set_drain_reason(drain_reason_);
  record.set_all_dealt(all_dealt_);
  record.set_next_checkpoint(next_checkpoint_);
  record.set_checkpoint_requested(checkpoint_requested_);
  record.set_checkpoint_name(checkpoint_name_);
  record.set_final_checkpoint_taken(final_checkpoint_taken_);
  *record.mutable_last_checkpoint() = ToRecord(last_checkpoint_);
  if (under_way_) *record.mutable_under_way() = ToRecord(*under_way_, under_way_after_);
  for (const PendingEvaluation& pending : pending_evaluations_) {
    PendingEvaluationRecord* saved = record.add_pending_evaluations();
    saved->set_after(pending.after);
    saved->set_epoch(pending.epoch);
    if (pending.evaluator) *saved->mutable_evaluator() = *pending.evaluator;
  }
  *record.mutable_total() = total_;
  record.mutable_staleness()->Add(staleness_.counts().begin(), staleness_.counts().end());
  record.mutable_evaluations()->Add(evaluations_.begin(), evaluations_.end());
  record.set_loads_state(loads_state_);
  record.set_samples_before(samples_before_);
  record.set_seconds_trained(SecondsTrained(now));
  record.set_started(started_.has_value());
  record.set_ended(ended_.has_value());
  return record;
}

void CoordinatorCore::Restore(const CoordinatorRecord& record, Time now) {
  model_ = std::make_shared<ModelSpec>(record.model());
  placement_ = std::make_shared<Placement>(record.placement());
  batches_per_epoch_ = record.batches_per_epoch();
  ledger_.emplace(LedgerOptionsFor(options_.config, batches_per_epoch_), record.ledger());
  hyper_ = record.hyper();
  for (const CoordinatorMemberRecord& member : record.members()) {
    members_.Restore(FromRecord(member, now));
  }
  members_.RenewAll(now);
  state_ = record.state();
  draining_ = record.draining();
  drain_failed_ = record.drain_failed();
  drain_reason_ = record.drain_reason();
  all_dealt_ = record.all_dealt();
  next_checkpoint_ = record.next_checkpoint();
  checkpoint_requested_ = record.checkpoint_requested();
  checkpoint_name_ = record.checkpoint_name();
  final_checkpoint_taken_ = record.final_checkpoint_taken();
  last_checkpoint_ = FromRecord(record.last_checkpoint());
  if (record.has_under_way()) {
    under_way_ = FromRecord(record.under_way());
    under_way_after_ = record.under_way().after();
  }
  for (const PendingEvaluationRecord& saved : record.pending_evaluations()) {
    PendingEvaluation& pending = pending_evaluations_.emplace_back();
    pending.after = saved.after();
    pending.epoch = saved.epoch();
    if (saved.has_evaluator()) pending.evaluator = saved.evaluator();
  }
  total_ = record.total();
  staleness_ = CountHistogram::FromCounts(record.staleness());
  evaluations_.assign(record.evaluations().begin(), record.evaluations().end());
  loads_state_ = record.loads_state();
  samples_before_ = record.samples_before();
  const Time start = now - std::chrono::duration_cast<Duration>(
                               std::chrono::duration<double>(record.seconds_trained()));
  if (record.started()) started_ = start;
  if (record.ended()) ended_ = now;
}

void CoordinatorCore::MoveShards(const std::vector<std::string>& endpoints) {
  auto moved = std::make_shared<Placement>(*placement_);
  moved->mutable_endpoints()->Assign(endpoints.begin(), endpoints.end());
  placement_ = std::move(moved);
}

}  // namespace psgd
