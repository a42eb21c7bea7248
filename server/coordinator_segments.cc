// The part of CoordinatorCore that deals segments and decides what happens at their boundaries.
#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/access.h"
#include "server/coordinator_core.h"

namespace psgd {
namespace {

constexpr int64_t kPollMs = 100;  // how soon a worker that waits asks again

// One that joined later counts as past what it was not there for: it may stand in for those who
// finished it, who may be gone.
uint64_t PastSegment(const MemberState& member) {
  return std::max(member.finished_segment, member.joined_after);
}

// They become names of metrics and keys of files.
absl::Status CheckMeasures(const EvalResult& result) {
  constexpr int kMostMeasures = 16;
  if (result.measures_size() > kMostMeasures) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", kMostMeasures, " measures in an evaluation"));
  }
  for (const auto& [name, value] : result.measures()) {
    const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
      return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
    });
    if (!plain || name.empty() || name.size() > kLongestName) {
      return absl::InvalidArgumentError(
          "a measure of an evaluation whose name is not of lower-case letters, digits and _");
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool CoordinatorCore::RunsIn(uint32_t worker, uint64_t segment) const {
  const MemberState* member = members_.Find(worker);
  const Segment* found = ledger_->Find(segment);
  if (member == nullptr || found == nullptr || segment <= member->joined_after) return false;
  const auto& workers = found->workers();
  return std::binary_search(workers.begin(), workers.end(), worker);  // the ledger deals to ascending ones
}

void CoordinatorCore::GiveBack(uint32_t worker, uint64_t clock) {
  for (const ReturnedBatch& batch : ledger_->Return(worker, clock)) {
    // A checkpoint under way promises what is not done up to its boundary.
    if (under_way_ && batch.segment <= under_way_after_ &&
        batch.epoch == under_way_->position.epoch) {
      under_way_->position.remaining.Add(batch.batch);
    }
  }
}

bool CoordinatorCore::AllFinished(uint64_t segment) const {
  for (uint32_t worker : members_.Ready()) {
    if (RunsIn(worker, segment) && members_.Find(worker)->finished_segment < segment) return false;
  }
  return true;
}

bool CoordinatorCore::CheckpointDue() const {
  if (under_way_) return false;
  if (checkpoint_requested_) return true;
  const Progress& every = options_.config.durability().checkpoint();
  if (every.has_epochs() && every.epochs() > 0) {
    const double last =
        last_checkpoint_.clock == 0
            ? 0
            : ProgressAt(last_checkpoint_, static_cast<uint32_t>(batches_per_epoch_));
    return ledger_->EpochProgress() - last >= every.epochs() - 1e-9;
  }
  if (every.has_steps() && every.steps() > 0) {
    return ledger_->position().clock >=
           last_checkpoint_.clock + static_cast<uint64_t>(every.steps());
  }
  return false;
}

void CoordinatorCore::StartCheckpoint(uint64_t clock, Effects* effects) {
  CoordinatorSnapshot snapshot;
  snapshot.checkpoint = next_checkpoint_++;
  snapshot.position = ledger_->position();
  snapshot.hyper = hyper_;
  snapshot.total = total_;
  snapshot.evaluations = evaluations_;
  checkpoint_requested_ = false;
  snapshot.name = std::exchange(checkpoint_name_, "");
  last_checkpoint_ = snapshot.position;
  TakeCheckpoint command{snapshot.checkpoint, clock, {}};
  under_way_after_ = ledger_->latest();
  for (uint32_t worker : members_.Ready()) {
    if (RunsIn(worker, under_way_after_)) command.savers.push_back(members_.Find(worker)->key);
  }
  under_way_ = std::move(snapshot);
  effects->commands.push_back(std::move(command));
}

void CoordinatorCore::CheckpointDone(uint64_t id, const absl::Status& status, Effects* effects) {
  if (!under_way_ || under_way_->checkpoint != id) return;
  under_way_.reset();
  if (status.ok()) {
    effects->news.push_back(absl::StrCat("checkpoint ", id, " is complete"));
  } else {
    effects->news.push_back(absl::StrCat("checkpoint ", id, " failed: ",
                                         std::string(status.message())));
  }
}

void CoordinatorCore::OpenBoundary(Effects* effects) {
  const uint64_t ending = ledger_->latest();
  const bool over = draining_ || ledger_->Finished();
  if (ending != 0 && (over || ledger_->EndsEpoch(ending))) {
    const double epoch = ledger_->Find(ending)->epoch() + 1;
    // Batches that came back make an epoch end again: its later end counts.
    std::erase_if(pending_evaluations_, [&](const PendingEvaluation& pending) {
      return std::ceil(pending.epoch) == epoch && !pending.evaluator;
    });
    const double done = ledger_->EndsEpoch(ending) ? epoch : ledger_->EpochProgress();
    pending_evaluations_.push_back({ending, done, std::nullopt});
  }
  if (over) {
    all_dealt_ = true;
    return;
  }
  if (ending != 0 && CheckpointDue()) StartCheckpoint(ledger_->position().clock, effects);
  if (auto segment = ledger_->Deal(members_.Ready())) {
    state_ = StatusReply::TRAINING;
    effects->commands.push_back(BeginSegment{*segment});
  }
}

bool CoordinatorCore::NobodyIsAhead(const MemberState& member) const {
  for (uint32_t worker : members_.Ready()) {
    if (members_.Find(worker)->finished_segment > PastSegment(member)) return false;
  }
  return true;
}

void CoordinatorCore::AssignEvaluation(const MemberState& member, NextSegmentReply* reply) {
  const bool may_evaluate = NobodyIsAhead(member);
  for (PendingEvaluation& pending : pending_evaluations_) {
    // Where all who finished it are gone, one who was not there stands in.
    const bool past = PastSegment(member) >= pending.after ||
                      !RunsIn(member.key.worker(), pending.after);
    if (!pending.evaluator && may_evaluate && past && AllFinished(pending.after)) {
      pending.evaluator = member.key;
    }
    if (pending.evaluator && pending.evaluator->worker() == member.key.worker()) {
      reply->set_evaluate(true);
      reply->set_evaluate_epoch(pending.epoch);
      return;
    }
  }
}

NextSegmentReply CoordinatorCore::Wait(std::string reason) const {
  NextSegmentReply reply;
  reply.set_kind(NextSegmentReply::WAIT);
  reply.set_wait_ms(kPollMs);
  reply.set_reason(std::move(reason));
  return reply;
}

absl::StatusOr<NextSegmentReply> CoordinatorCore::NextSegment(const NextSegmentRequest& request,
                                                              Time now, Effects* effects) {
  PSGD_ASSIGN_OR_RETURN(MemberState * member, members_.Touch(request.key(), now));
  if (!member->registered) {
    return absl::FailedPreconditionError(
        absl::StrCat("worker ", member->key.worker(), " asked for work before it registered"));
  }
  const uint32_t worker = member->key.worker();
  uint64_t after = member->joined_after;
  if (!request.first()) {
    const Segment* finished = ledger_->Find(request.finished_segment());
    if (finished == nullptr || !RunsIn(worker, finished->id())) {
      return absl::InvalidArgumentError(absl::StrCat("worker ", worker, " says it finished segment ",
                                                     request.finished_segment(),
                                                     ", which was not dealt to it"));
    }
    after = finished->id();
    member->finished_segment = std::max(member->finished_segment, after);
    member->clock = std::max(member->clock, finished->first_clock() + finished->clocks());
    uint64_t oldest = after;
    for (uint32_t other : members_.Ready()) {
      oldest = std::min(oldest, members_.Find(other)->finished_segment);
    }
    if (oldest > 1) ledger_->Forget(oldest - 1);
  }

  const size_t wanted = static_cast<size_t>(options_.config.cluster().workers());
  const bool begun = ledger_->latest() != 0 || all_dealt_ || draining_;
  if (!begun && members_.Ready().size() < wanted) {
    return Wait(absl::StrCat("waiting for workers: ", members_.Ready().size(), " of ", wanted,
                             " are here"));
  }
  const bool caught_up = after == ledger_->latest() && !request.first();
  if (ledger_->latest() == 0 || caught_up || AllFinished(ledger_->latest())) {
    if (!all_dealt_ || !(draining_ || ledger_->Finished())) {
      all_dealt_ = false;
      OpenBoundary(effects);
    }
  }

  NextSegmentReply reply = Wait("waiting for the next segment to begin");
  for (uint64_t id = after + 1; id <= ledger_->latest(); ++id) {
    if (!RunsIn(worker, id)) continue;
    reply.set_kind(NextSegmentReply::RUN);
    reply.clear_reason();
    *reply.mutable_segment() = ShareOf(*ledger_->Find(id), worker);
    break;
  }
  AssignEvaluation(*member, &reply);
  if (reply.kind() == NextSegmentReply::WAIT && all_dealt_) reply = Finish(now, effects, std::move(reply));
  if (under_way_ && !request.first() && after == under_way_after_) {
    reply.set_save_state_for(under_way_->checkpoint);
  }
  reply.set_load_state(request.first() && loads_state_);
  return reply;
}

NextSegmentReply CoordinatorCore::Finish(Time now, Effects* effects,
                                         NextSegmentReply reply) {
  if (!AllFinished(ledger_->latest())) {
    reply.set_reason("waiting for the other workers to finish");
    return reply;
  }
  if (!pending_evaluations_.empty()) {
    reply.set_reason("waiting for the last evaluation");
    return reply;
  }
  if (!LastCheckpointTaken(effects)) {
    reply.set_reason("waiting for the last checkpoint");
    return reply;
  }
  if (!over()) EndRun(now);
  reply.set_kind(NextSegmentReply::DONE);
  reply.set_reason(draining_ ? drain_reason_ : "every epoch is done");
  return reply;
}

bool CoordinatorCore::LastCheckpointTaken(Effects* effects) {
  if (!under_way_ && !final_checkpoint_taken_ && ledger_ && ledger_->latest() != 0) {
    StartCheckpoint(ledger_->position().clock, effects);
    final_checkpoint_taken_ = true;
  }
  return !under_way_;
}

absl::Status CoordinatorCore::Evaluated(const EvaluatedRequest& request, Time now,
                                        Effects* effects) {
  PSGD_ASSIGN_OR_RETURN(MemberState * member, members_.Touch(request.key(), now));
  PSGD_RETURN_IF_ERROR(CheckMeasures(request.result()));
  const auto pending = std::find_if(
      pending_evaluations_.begin(), pending_evaluations_.end(), [&](const PendingEvaluation& p) {
        return p.epoch == request.result().epoch() && p.evaluator &&
               p.evaluator->worker() == member->key.worker();
      });
  // Told twice: the first answer stands.
  if (pending == pending_evaluations_.end()) return absl::OkStatus();
  pending_evaluations_.erase(pending);
  evaluations_.push_back(request.result());
  const EvalResult& result = request.result();
  effects->news.push_back(absl::StrFormat("epoch %g: test accuracy %.2f %%, loss %.4f", result.epoch(),
                                          100 * result.accuracy(), result.loss()));
  return absl::OkStatus();
}

}  // namespace psgd
