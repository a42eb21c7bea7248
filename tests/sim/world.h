// What a simulated worker sees of its run: shards, a coordinator to ask, and the books of the
// oracle.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "compression/codec.h"
#include "net/message.h"
#include "server/cluster/server_effects.h"
#include "simulate/event_queue.h"
#include "tests/sim/oracle.h"
#include "tests/sim/scenario.h"

namespace psgd::sim {

class Worker;

// Not thread-safe.
class World {
 public:
  World(const Scenario& scenario, bool trace);
  virtual ~World() = default;

  EventQueue& queue() { return queue_; }
  Oracle& oracle() { return oracle_; }
  const Scenario& scenario() const { return scenario_; }
  const CodecTable& codecs() const { return codecs_; }
  bool tracing() const { return tracing_; }
  void Note(const std::string& what);

  using Answered = std::function<void(absl::StatusOr<ControlReply>)>;
  // Asks the coordinator until an answer comes, as worker/control_client does.
  virtual void Ask(Worker* worker, ControlRequest request, Answered answer) = 0;
  // `server`: where it is said to be.
  virtual void SendToShard(Worker* worker, uint32_t server, uint32_t shard,
                           const Message& message) = 0;
  virtual void Ended(Worker* worker) = 0;
  // Somebody noticed that what was acknowledged is lost: right where it may be, and wrong
  // elsewhere.
  virtual void FoundOut(const std::string& what) = 0;
  virtual void CountResent(uint64_t messages) = 0;

 protected:
  const Scenario scenario_;
  EventQueue queue_;
  Oracle oracle_;
  std::deque<std::string> trace_;

 private:
  const bool tracing_;
  const CodecTable codecs_;
  Time start_{};
};

}  // namespace psgd::sim
