// A worker as a small state machine: the steps of train/trainer.cc over a SessionCore, in simulated
// time, with gradients that the oracle can check.
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
#include "worker/session_core.h"

namespace psgd::sim {

class World;

// Not thread-safe. One a process; a process that ends never comes back, another takes its place.
class Worker {
 public:
  Worker(World* world, uint32_t process, uint64_t seed);

  void Start();
  void Crash(const std::string& why);
  void Pause(Duration duration);
  // Sets this process's clock ahead, or back.
  void StepClock(Duration step) { clock_offset_ += step; }
  // The next step computes for so long.
  void SlowDown(Duration duration) { slow_step_ = duration; }

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
  // By this process's clock.
  Time Now() const;
  void Join();
  void Register();
  void Beat();
  void SendReport();
  void CompareEndpoints(const std::vector<std::string>& endpoints);
  void Ask();
  void Follow(const NextSegmentReply& reply);
  bool HasBatch(const Segment& segment, uint32_t step) const;
  void Run(const Segment& segment, uint32_t step);
  void Step(const Segment& segment, uint32_t step, uint64_t clock);
  void Install();
  void PushAll(uint64_t clock);
  void Save(uint64_t checkpoint, Then then);
  void Evaluate(double epoch, Then then);
  void Finish();
  void Compute(Duration duration, Then then);
  void WaitUntil(std::function<bool()> condition, Then then);
  // Sends what is ready, goes on where a wait is over, takes what came in.
  void Pump();
  void Send();
  void Tick();
  void GiveUp(const absl::Status& status);

  World* const world_;
  const uint32_t process_;
  Chance chance_;
  bool dead_ = false;
  bool done_ = false;
  bool busy_ = false;  // computing: takes no messages
  bool pumping_ = false;
  Time paused_until_{};
  Duration clock_offset_{};
  Duration slow_step_{};
  std::deque<Then> inbox_;
  std::function<bool()> condition_;
  Then then_;

  WorkerKey key_;
  Placement placement_;
  std::vector<std::string> endpoints_;  // of the shards
  std::unique_ptr<SessionCore> core_;
  bool first_ = true;
  std::string waits_for_;
  bool loaded_ = false;
  uint64_t finished_segment_ = 0;
  uint64_t clock_ = 0;
  uint64_t dealt_ = 0;  // the clock at which its segment ends
  uint64_t saved_checkpoint_ = 0;
  WorkerReport report_;
  std::vector<std::vector<float>> weights_;  // that the step computes from
  bool pulled_ahead_ = false;
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
