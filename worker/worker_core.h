// What a worker does, from its registration until it leaves the run: a state machine without IO,
// threads or a clock. It holds the worker's side of the data plane (SessionCore), asks it for
// weights, ends clocks, and names the next task of its shell. Shells: train/trainer.h and
// client/client.h, which share worker/member.h; tests/sim/worker.h; simulate/modelled_worker.h.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "common/clock.h"
#include "proto/config.pb.h"
#include "proto/control.pb.h"
#include "proto/local_steps.h"
#include "worker/session_core.h"

namespace psgd {

// What the shell does next. Unless a comment says otherwise, the shell calls WorkerCore::Done when
// it has done the task.
namespace task {

// Ask the coordinator what to do; OnSegment takes the answer.
struct AskSegment {
  NextSegmentRequest request;
};
// Wait for so long, because there is nothing to do. `reason`: of the coordinator, for people.
struct Pause {
  Duration duration{};
  std::string reason;
  bool leaves =
      false;  // the worker was asked to leave; without a residual the shell may call LeaveNow
};
// Carry messages of the session until Advance returns true.
struct Await {
  enum What { kWeights, kAcknowledgements, kState };
  What what = kWeights;
  uint64_t clock = 0;  // kWeights: the clock that the weights are for
};
// Put back what session().TakeLoadedState() returns.
struct RestoreState {};
// Give the residuals, and what a program keeps, to session().SaveState.
struct SaveState {
  uint64_t checkpoint = 0;
};
// A segment begins, with these batches of this worker.
struct BeginSegment {
  Segment segment;
};
// Take the weights as of `clock` out of the session.
struct Install {
  uint64_t clock = 0;
  bool for_step = true;  // a Train follows; otherwise an Evaluate, or the segment ends
};
// Compute the step that leads to `clock` on the segment's next batch, and push its updates. With
// local steps: take these steps, each on the segment's next batch, and push what they changed.
struct Train {
  uint64_t clock = 0;
  uint64_t steps = 1;
};
// Evaluate the weights that were installed last, and tell the coordinator. If they were pulled
// aside (SessionCore::pulls_aside), then put back the weights from before the Install.
struct Evaluate {
  double epoch = 0;
  uint64_t clock = 0;
};
// Send a heartbeat now: this worker did the steps up to `clock`. SetAsked takes what the answer
// says.
struct Report {
  uint64_t clock = 0;
};
// Push what the codecs left behind as the update of `clock`, then call GaveResidual.
struct GiveResidual {
  uint64_t clock = 0;
};
// Leave the run. There is no task after this one.
struct Leave {
  enum Why { kRunIsOver, kAskedBeforeFirstStep, kAskedWhileWaiting, kGaveResidual };
  Why why = kRunIsOver;
  std::string reason;  // kRunIsOver: the coordinator's, for people
};

}  // namespace task

using WorkerTask = std::variant<task::AskSegment, task::Pause, task::Await, task::RestoreState,
                                task::SaveState, task::BeginSegment, task::Install, task::Train,
                                task::Evaluate, task::Report, task::GiveResidual, task::Leave>;

// Whether a worker asks for the weights of the next step before a step computes. At staleness 0
// each slice then comes back as soon as every worker has pushed it, while others still leave.
inline bool PullsAhead(const ConsistencyConfig& consistency) {
  return consistency.pull_ahead() || consistency.staleness() == 0;
}

// Not thread-safe.
class WorkerCore {
 public:
  enum class AtEnd {
    kAsk,   // a worker that evaluates when it is asked to
    kPull,  // installs the weights of a segment's end: its program evaluates when it wants
  };

  // What a worker does when the whole run is asked to end.
  enum class OnDrain { kEndSegment, kLeave };

  WorkerCore(const SessionOptions& options, bool pull_ahead, const Placement& placement, Time now,
             AtEnd at_end = AtEnd::kAsk, OnDrain on_drain = OnDrain::kEndSegment);

  const WorkerTask& task() const { return task_; }
  // Ends an Await whose answer is here. Returns whether there is a new task, which may be another
  // Await.
  bool Advance(Time now);
  // REQUIRES: the task is neither Await, AskSegment, GiveResidual nor Leave.
  void Done(Time now);
  // REQUIRES: the task is AskSegment.
  void OnSegment(const NextSegmentReply& reply, Time now);

  // `leave`: this worker is to leave. `drain`: the whole run ends.
  void SetAsked(bool leave, bool drain);
  // Whether this worker leaves before the end of its segment.
  bool leaves() const {
    return on_drain_ == OnDrain::kLeave ? leave_asked_ || drain_ : leave_asked_ && !drain_;
  }
  // The worker computes no more: it leaves in place of the step. REQUIRES: it leaves(), and the
  // task is a Train that has pushed nothing yet.
  void GiveUpStep(Time now) { GoOn(now); }
  // REQUIRES: the task is a Pause that `leaves`, and nothing was left behind.
  void LeaveNow();
  // `any`: something was pushed. REQUIRES: the task is GiveResidual.
  void GaveResidual(bool any, Time now);

  SessionCore& session() { return session_; }
  const SessionCore& session() const { return session_; }

  // During an Await of weights: whether a step follows; otherwise an evaluation does.
  bool step_follows() const { return !evaluates_; }
  // The last clock that this worker ended.
  uint64_t clock() const { return clock_; }
  // During an Await of weights that a step follows, and during Train: the Train's steps.
  uint64_t steps() const;
  // During Train: whether the segment has a batch for the step after this one.
  bool batch_follows() const { return HasBatch(clock_ + 2); }
  // During Train: whether the weights of the step after this one are already asked for.
  bool pulled_ahead() const { return pulled_ahead_; }

 private:
  // A worker that waits long asks less often, so that it costs little. A pause is at most this part
  // of the wait, unless the coordinator wants a longer one.
  static constexpr int kOfTheWait = 20;
  static constexpr Duration kLongestPause = std::chrono::milliseconds(500);

  // What follows the present task, an Await or a Report.
  enum class Then {
    kAsk,
    kAnswer,          // what is left of the coordinator's answer
    kGoOn,            // in the segment
    kInstall,         // what was pulled
    kRestore,         // what the shards kept for this worker
    kReportResidual,  // it was pushed
    kLeave,           // the residual was reported
    kReportSegment,   // its last push is acknowledged
  };

  // This worker's batches before the step that leads to `clock`.
  uint64_t BatchesBefore(uint64_t clock) const { return (clock - first_clock_ - 1) * clock_steps_; }
  // Whether this worker has a batch for the step that leads to `clock`.
  bool HasBatch(uint64_t clock) const;
  void Await(task::Await::What what, Then then);
  // Pulls the weights and awaits them. `all`: the weights of every slice.
  void AwaitWeights(Then then, bool all, Time now);
  void Report(uint64_t clock, Then then);
  void Ask();
  // Carries out what is left of the coordinator's answer, in this order: load state, save state,
  // ask whether the run drains if the worker is to leave, evaluate; then the segment, a pause, or
  // the end.
  void CarryOutAnswer(Time now);
  void Begin(const Segment& segment);
  // Goes on in the segment, after `clock_`.
  void GoOn(Time now);
  void GoOnAfter(Then then, Time now);

  const WorkerKey key_;
  const bool pull_ahead_;
  const AtEnd at_end_;
  const OnDrain on_drain_;
  SessionCore session_;
  WorkerTask task_;
  Then then_ = Then::kAsk;

  Time waits_since_ = Time::max();  // since then it was told to wait
  NextSegmentReply answer_;         // of the coordinator; `evaluate` is cleared once that is done
  bool ask_at_once_ = false;        // the worker did something for the answer, so it does not pause
  // A heartbeat was answered since the last step or answer, so drain_ is what the run does now.
  bool drain_is_fresh_ = false;

  uint64_t segment_ = 0;                                 // its id; 0 before the first
  uint64_t first_clock_ = 0, clocks_ = 0, batches_ = 0;  // of the segment
  uint64_t clock_steps_ = 1;                             // batches of a clock
  uint64_t clock_ = 0;
  bool pulled_ahead_ = false;
  bool end_pulled_ = false;  // the weights of the segment's end were asked for
  bool evaluates_ = false;   // the weights that come are for an evaluation
  bool trained_ = false;
  bool loaded_ = false;
  bool leave_asked_ = false, drain_ = false;
  uint64_t saved_checkpoint_ = 0;
};

// Segments of programs, and of local steps, last long: nobody waits for their end.
inline WorkerCore::OnDrain OnDrainOf(const Config& config) {
  const bool is_long = config.model().has_client() || TakesLocalSteps(config.local());
  return is_long ? WorkerCore::OnDrain::kLeave : WorkerCore::OnDrain::kEndSegment;
}

}  // namespace psgd
