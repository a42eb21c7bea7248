// A worker of the simulation: what train/trainer.cc does, with the production session and a model
// of the time that the rest takes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proto/control.pb.h"
#include "simulate/chance.h"
#include "simulate/connection.h"
#include "worker/session_core.h"

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
  const SessionStats& stats() const { return core_ ? core_->stats() : none_; }

 private:
  using Then = std::function<void()>;

  void Join();
  void Register();
  void Beat();
  void Ask();
  void Follow(const NextSegmentReply& reply);
  void Take(const Segment& segment);
  void Run(uint32_t step);
  void EndSegment();
  bool HasBatch(uint32_t step) const;
  void Step(uint32_t step);
  // Part `part` of the step's computing, and the gradients that it ends with.
  void Compute(uint32_t step, size_t part, double seconds);
  void EndStep(uint32_t step);
  double ComputeSeconds();

  // Takes so long on this worker's thread.
  void Spend(double seconds, double threads, Then then);
  // Asks the coordinator, at a message each way.
  void Call(Then ask);
  void WaitUntil(std::function<bool()> condition, Then then);
  void WatchWait(uint64_t wait);
  // Sends what the session has, and goes on if what is waited for has come.
  void Pump();
  void Send();
  void GiveUp(const absl::Status& status);

  ModelledCluster* const cluster_;
  const uint32_t process_;
  Chance chance_;
  const double pace_;  // what it takes for a step, as a share of the usual
  const SessionStats none_;
  std::vector<std::unique_ptr<Connection>> to_shards_;
  std::unique_ptr<SessionCore> core_;
  WorkerKey key_;
  bool dead_ = false;
  bool idle_ = false;

  // The segment under way; its batches are not kept: there may be very many.
  uint64_t segment_ = 0;
  uint64_t first_clock_ = 0;
  uint32_t clocks_ = 0, batches_ = 0;
  bool first_ = true;
  uint64_t finished_segment_ = 0;
  bool pulled_ahead_ = false;

  std::function<bool()> condition_;  // what is waited for, if anything
  Then then_;
  uint64_t wait_ = 0;
  Time since_{};
  Times times_;
};

}  // namespace psgd::sim
