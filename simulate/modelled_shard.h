// A shard of the simulation: the production core, and a thread that takes its time.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "server/shard/shard_core.h"
#include "simulate/shared_resource.h"
#include "simulate/traffic.h"

namespace psgd::sim {

struct ShardCosts {
  double message = 0;  // seconds of a processor
  double byte = 0;
  double beside = 0;                     // share of them for which nobody waits
  double times = 1;                      // threads of its host that this one stands for
  SharedResource* processors = nullptr;  // of its host; null: enough for all its threads
};

// What it says, and how many bytes that is on the wire.
using ShardReply =
    std::function<void(PeerId to, std::shared_ptr<const Message> message, double bytes)>;

// The core keeps clocks, versions, gates and numbers of pushes as ever, over slices of one weight
// each; what travels has the sizes of the real slices. Not thread-safe.
class ModelledShard {
 public:
  // REQUIRES: `traffic` outlives this.
  ModelledShard(EventQueue* queue, uint32_t index, const Config& config, const Traffic& traffic,
                const ShardCosts& costs, ShardReply reply);

  absl::Status Execute(const ShardCommand& command);
  // A message has come in. `bytes`: of it on the wire.
  void Receive(PeerId from, std::shared_ptr<Message> message, double bytes);

  const ShardStats& stats() const { return core_.stats(); }
  // Seconds in which its thread was at work.
  double busy() const { return busy_; }

 private:
  struct Task {
    double seconds = 0;
    EventQueue::Action done;
  };

  // Adds them before what waits: one message is answered before the next is looked at.
  void Answer(Outbox out);
  // Ticks once the grace of the next clock is over.
  void WatchGrace();
  void Work();
  void Done();

  EventQueue* const queue_;
  const Traffic& traffic_;
  const ShardCosts costs_;
  const ShardReply reply_;
  ShardCore core_;
  std::optional<Time> watched_;  // the latest end of a grace that is waited for
  std::deque<Task> tasks_;
  Task task_;  // under way
  bool working_ = false;
  Time since_{};
  double busy_ = 0;
};

// The size of a message on the wire, with all headers.
double WireBytes(const Message& message);

}  // namespace psgd::sim
