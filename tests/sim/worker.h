// A worker of the simulation: the shell of a WorkerCore and a LeaseCore in simulated time, with
// gradients that the oracle can check.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compression/codec.h"
#include "proto/control.pb.h"
#include "server/cluster/server_effects.h"
#include "simulate/chance.h"
#include "tests/sim/world.h"
#include "worker/lease_core.h"
#include "worker/worker_core.h"

namespace psgd::sim {

// Not thread-safe. One a process; a process that ends never comes back, another takes its place.
class Worker {
 public:
  Worker(World* world, uint32_t process, uint64_t seed);

  void Start();
  void Crash(const std::string& why);
  void Pause(Duration duration);
  // The next step computes for so long.
  void SlowDown(Duration duration) { slow_step_ = duration; }
  // Asks it to leave the run, as SIGTERM does.
  void AskToLeave() { leave_asked_ = true; }

  uint32_t process() const { return process_; }
  const WorkerKey& key() const { return key_; }
  bool dead() const { return dead_; }
  // Left as the coordinator told it to.
  bool done() const { return done_; }
  // Runs `action` when this process is there to take it; never, if it ends before.
  void Post(std::function<void()> action);
  void Receive(uint32_t shard, const Message& message);

 private:
  using Then = std::function<void()>;

  template <typename Reply>
  void Call(ControlRequest request, std::function<void(absl::StatusOr<Reply>)> answer);
  Time Now() const;
  void Join();
  void Register();
  void Beat();
  void SendReport(Then answered);

  // Begins the task of the core.
  void Act();
  void Do(const task::AskSegment& ask);
  void Do(const task::Pause& pause);
  void Do(const task::Await&) {}
  void Do(const task::RestoreState&);
  void Do(const task::SaveState& save);
  void Do(const task::BeginSegment& begin);
  void Do(const task::Install& install);
  void Do(const task::Train& train);
  void Do(const task::Evaluate& evaluate);
  void Do(const task::Report& report);
  void Do(const task::GiveResidual& give);
  void Do(const task::Leave& leave);
  // The task is done; the next one begins.
  void Done();
  void SetAsked();

  void PushAll(uint64_t clock);
  void Compute(Duration duration, Then then);
  // Sends what is ready, takes what came in, and goes on when the shards have answered.
  void Pump();
  void Send();
  void Tick();
  bool awaits() const { return core_ && std::holds_alternative<task::Await>(core_->task()); }
  void GiveUp(const absl::Status& status);

  World* const world_;
  const uint32_t process_;
  const bool replaces_;  // an earlier process of its name, which may live
  Chance chance_;
  bool dead_ = false;
  bool done_ = false;
  bool busy_ = false;  // computing: takes no messages
  bool pumping_ = false;
  bool leave_asked_ = false;
  Time paused_until_{};
  Duration slow_step_{};
  std::deque<Then> inbox_;

  WorkerKey key_;
  Placement placement_;
  std::vector<std::string> endpoints_;  // of the shards
  std::unique_ptr<LeaseCore> lease_;
  std::unique_ptr<WorkerCore> core_;
  bool reporting_ = false;  // a heartbeat waits for its answer
  Then report_next_;        // called when one more heartbeat is answered
  std::string waits_for_;
  uint64_t dealt_ = 0;                                      // the clock at which its segment ends
  std::vector<std::vector<float>> weights_;                 // that the step computes from
  std::map<uint32_t, std::vector<float>> residuals_;        // by slice; lossy codecs
  std::map<uint32_t, std::unique_ptr<Encoder>> encoders_;   // likewise
  std::map<std::pair<uint32_t, uint64_t>, bool> poisoned_;  // (slice, clock) that hold a NaN
};

template <typename Reply>
void Worker::Call(ControlRequest request, std::function<void(absl::StatusOr<Reply>)> answer) {
  world_->Ask(this, std::move(request),
              [answer = std::move(answer)](absl::StatusOr<ControlReply> reply) {
                answer(reply.ok() ? absl::StatusOr<Reply>(std::get<Reply>(*std::move(reply)))
                                  : reply.status());
              });
}

}  // namespace psgd::sim
