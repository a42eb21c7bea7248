// A worker of the prediction: the shell of a WorkerCore, with a model of the time that its tasks
// take.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "proto/control.pb.h"
#include "simulate/chance.h"
#include "simulate/connection.h"
#include "worker/worker_core.h"

namespace psgd::sim {

class ModelledCluster;

// Not thread-safe.
class ModelledWorker {
 public:
  ModelledWorker(ModelledCluster* cluster, uint32_t process);

  void Start();
  void Receive(uint32_t shard, const Message& message);
  // Dies at once.
  void Die();

  bool dead() const { return dead_; }
  // It is waiting to be told what to do, or has done all that there is.
  bool idle() const { return idle_; }
  uint32_t process() const { return process_; }

  struct Times {
    uint64_t steps = 0;
    double compute = 0;
    double encode = 0;
    double wait = 0;
  };
  const Times& times() const { return times_; }
  // REQUIRES: it has registered, or it is a default.
  const SessionStats& stats() const { return core_ ? core_->session().stats() : none_; }

 private:
  using Then = std::function<void()>;

  void Join();
  void Register();
  void Beat();

  // Begins the task of the core.
  void Act();
  void Do(const task::AskSegment& ask);
  void Do(const task::Pause& pause);
  void Do(const task::Await&);
  void Do(const task::RestoreState&) { Done(); }
  void Do(const task::SaveState&) { Done(); }
  void Do(const task::BeginSegment& begin);
  void Do(const task::Install& install);
  void Do(const task::Train& train);
  void Do(const task::Evaluate& evaluate);
  void Do(const task::Report& report);
  void Do(const task::GiveResidual&) {}  // nobody asks it to leave
  void Do(const task::Leave&) {}
  // The task is done; the next one begins.
  void Done();
  // Takes so many local steps, which push nothing.
  void TakeLocalSteps(uint64_t steps, Then then);
  // Part `part` of the step's computing, and the gradients that it ends with.
  void Compute(uint64_t clock, size_t part, double seconds);
  void EndClock();
  double ComputeSeconds();

  // Takes so long on this worker's thread.
  void Spend(double seconds, double threads, Then then);
  // Asks the coordinator, at a message each way.
  void Call(Then ask);
  void WatchWait(uint64_t wait);
  // Sends what the session has, and goes on if the shards have answered.
  void Pump();
  void Send();
  bool awaits() const { return core_ && std::holds_alternative<task::Await>(core_->task()); }
  const LocalConfig& local() const;
  void GiveUp(const absl::Status& status);

  ModelledCluster* const cluster_;
  const uint32_t process_;
  Chance chance_;
  const double pace_;  // what it takes for a step, as a share of the usual
  const SessionStats none_;
  std::vector<std::unique_ptr<Connection>> to_shards_;
  std::unique_ptr<WorkerCore> core_;
  WorkerKey key_;
  bool dead_ = false;
  bool idle_ = false;
  bool trains_ahead_ = false;  // takes local steps while weights come
  bool trained_ = false;
  uint64_t steps_ahead_ = 0;  // of the next clock, already taken
  uint64_t steps_ = 1;        // of the present clock
  uint64_t most_steps_ = 1;   // of the fastest worker, in a clock of the segment

  uint64_t wait_ = 0;  // counts the waits for shards
  Time since_{};
  Times times_;
  Times reported_;  // up to the last report
};

}  // namespace psgd::sim
