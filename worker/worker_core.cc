#include "worker/worker_core.h"

#include <algorithm>
#include <utility>

namespace psgd {

WorkerCore::WorkerCore(const SessionOptions& options, bool pull_ahead, const Placement& placement,
                       Time now, AtEnd at_end, OnDrain on_drain)
    : key_(options.key),
      pull_ahead_(pull_ahead),
      at_end_(at_end),
      on_drain_(on_drain),
      session_(options, placement, now) {
  Ask();
}

void WorkerCore::SetAsked(bool leave, bool drain) {
  leave_asked_ = leave;
  drain_ = drain;
}

void WorkerCore::Ask() {
  NextSegmentRequest request;
  *request.mutable_key() = key_;
  request.set_first(segment_ == 0);
  request.set_finished_segment(segment_);
  task_ = task::AskSegment{std::move(request)};
}

void WorkerCore::OnSegment(const NextSegmentReply& reply, Time now) {
  answer_ = reply;
  ask_at_once_ = false;
  drain_is_fresh_ = false;
  CarryOutAnswer(now);
}

void WorkerCore::CarryOutAnswer(Time now) {
  const bool runs = answer_.kind() == NextSegmentReply::RUN;
  if (answer_.load_state() && !loaded_ && runs) {
    session_.LoadState(now);
    return Await(task::Await::kState, Then::kRestore);
  }
  if (answer_.save_state_for() > saved_checkpoint_) {
    ask_at_once_ = true;
    task_ = task::SaveState{answer_.save_state_for()};
    return;
  }
  // The run may have been asked to end as well: then this worker stays to the end of its segment.
  if (leaves() && !std::exchange(drain_is_fresh_, true)) {
    return Report(session_.AcknowledgedClock(), Then::kAnswer);
  }
  // A worker that leaves in the next segment has no time to evaluate; another is asked then.
  if (answer_.evaluate() && !(leaves() && runs)) {
    ask_at_once_ = true;
    evaluates_ = true;
    session_.PullForEvaluation(clock_, now);
    return Await(task::Await::kWeights, Then::kInstall);
  }
  switch (answer_.kind()) {
    case NextSegmentReply::RUN:
      return Begin(answer_.segment());
    case NextSegmentReply::DONE:
      task_ = task::Leave{task::Leave::kRunIsOver, answer_.reason()};
      return;
    default:
      break;
  }
  if (leaves() && segment_ == 0) return LeaveNow();
  // With a residual it stays: the next segment, or the run's last checkpoint, takes that.
  if (ask_at_once_) {
    waits_since_ = Time::max();
    return Ask();
  }
  waits_since_ = std::min(waits_since_, now);
  const Duration pause = std::max(Milliseconds(answer_.wait_ms()),
                                  std::min(kLongestPause, (now - waits_since_) / kOfTheWait));
  task_ = task::Pause{pause, answer_.reason(), leaves()};
}

void WorkerCore::LeaveNow() { task_ = task::Leave{task::Leave::kAskedWhileWaiting, {}}; }

void WorkerCore::Begin(const Segment& segment) {
  waits_since_ = Time::max();
  segment_ = segment.id();
  first_clock_ = clock_ = segment.first_clock();
  clocks_ = segment.clocks();
  batches_ = static_cast<uint64_t>(segment.batches_size());
  clock_steps_ = segment.steps().empty() ? 1 : segment.steps(0);
  end_pulled_ = false;
  task_ = task::BeginSegment{segment};
}

bool WorkerCore::HasBatch(uint64_t clock) const {
  return clock <= first_clock_ + clocks_ && BatchesBefore(clock) < batches_;
}

uint64_t WorkerCore::steps() const {
  return std::min(clock_steps_, batches_ - BatchesBefore(clock_ + 1));
}

void WorkerCore::GoOn(Time now) {
  const uint64_t end = first_clock_ + clocks_;
  // The other workers have one batch more than this one: an empty step keeps the clocks together.
  while (clock_ < end && !HasBatch(clock_ + 1)) session_.EndClock(++clock_, now);
  if (clock_ == end && at_end_ == AtEnd::kPull && !std::exchange(end_pulled_, true)) {
    return AwaitWeights(Then::kInstall, /*all=*/true, now);
  }
  if (clock_ == end) return Await(task::Await::kAcknowledgements, Then::kReportSegment);
  if (!leaves()) return AwaitWeights(Then::kInstall, /*all=*/!trained_, now);
  if (!std::exchange(drain_is_fresh_, true))
    return Report(session_.AcknowledgedClock(), Then::kGoOn);
  if (trained_ || session_.AcknowledgedClock() > 0) {
    task_ = task::GiveResidual{clock_ + 1};
  } else {
    task_ = task::Leave{task::Leave::kAskedBeforeFirstStep, {}};
  }
}

void WorkerCore::Await(task::Await::What what, Then then) {
  then_ = then;
  task_ = task::Await{what, clock_};
}

void WorkerCore::AwaitWeights(Then then, bool all, Time now) {
  if (!std::exchange(pulled_ahead_, false)) session_.Pull(clock_, now, all);
  Await(task::Await::kWeights, then);
}

void WorkerCore::Report(uint64_t clock, Then then) {
  then_ = then;
  task_ = task::Report{clock};
}

bool WorkerCore::Advance(Time now) {
  const auto* await = std::get_if<task::Await>(&task_);
  if (await == nullptr) return true;
  const bool waits = await->what == task::Await::kWeights ? session_.pulling()
                     : await->what == task::Await::kState ? session_.loading()
                                                          : !session_.AllAcknowledged();
  if (waits) return false;
  GoOnAfter(then_, now);
  return true;
}

void WorkerCore::GoOnAfter(Then then, Time now) {
  switch (then) {
    case Then::kAsk:
      return Ask();
    case Then::kAnswer:
      return CarryOutAnswer(now);
    case Then::kGoOn:
      return GoOn(now);
    case Then::kInstall:
      task_ = task::Install{clock_, !evaluates_ && HasBatch(clock_ + 1)};
      return;
    case Then::kRestore:
      task_ = task::RestoreState{};
      return;
    case Then::kReportSegment:
      return Report(clock_, Then::kAsk);
    case Then::kReportResidual:
      return Report(clock_, Then::kLeave);
    case Then::kLeave:
      task_ = task::Leave{task::Leave::kGaveResidual, {}};
      return;
  }
}

void WorkerCore::Done(Time now) {
  if (std::holds_alternative<task::Pause>(task_)) return Ask();
  if (std::holds_alternative<task::Report>(task_)) return GoOnAfter(then_, now);
  if (std::holds_alternative<task::BeginSegment>(task_)) return GoOn(now);
  if (std::holds_alternative<task::RestoreState>(task_)) {
    loaded_ = true;
    return CarryOutAnswer(now);
  }
  if (const auto* save = std::get_if<task::SaveState>(&task_)) {
    saved_checkpoint_ = save->checkpoint;
    return Await(task::Await::kAcknowledgements, Then::kAnswer);
  }
  if (std::holds_alternative<task::Install>(task_)) {
    if (std::exchange(evaluates_, false)) {
      task_ = task::Evaluate{answer_.evaluate_epoch(), clock_};
      return;
    }
    if (clock_ == first_clock_ + clocks_) return GoOn(now);
    // The next weights are asked for within a segment only: between two the members may change.
    pulled_ahead_ = pull_ahead_ && HasBatch(clock_ + 2);
    if (pulled_ahead_) session_.Pull(clock_ + 1, now, /*all=*/false);
    task_ = task::Train{clock_ + 1, steps()};
    return;
  }
  if (std::holds_alternative<task::Evaluate>(task_)) {
    answer_.set_evaluate(false);
    return CarryOutAnswer(now);
  }
  // Train
  trained_ = true;
  drain_is_fresh_ = false;
  session_.EndClock(++clock_, now);
  GoOn(now);
}

void WorkerCore::GaveResidual(bool any, Time now) {
  if (any) session_.EndClock(clock_ + 1, now);
  Await(task::Await::kAcknowledgements, Then::kReportResidual);
}

}  // namespace psgd
