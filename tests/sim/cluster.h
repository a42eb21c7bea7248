// One simulated run: the production cores, joined by a simulated network and watched by an oracle.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "simulate/event_queue.h"
#include "tests/sim/network.h"
#include "tests/sim/oracle.h"
#include "tests/sim/scenario.h"
#include "tests/sim/server.h"
#include "tests/sim/worker.h"
#include "tests/sim/world.h"

namespace psgd::sim {

struct Outcome {
  std::vector<std::string> breaches;
  std::string found_out;  // that acknowledged pushes are lost, where they may be; the run's end
  uint64_t hash = 0;      // of everything that happened
  std::map<uint32_t, std::vector<float>> weights;  // by slice, at the end
  Oracle::Counts counts;
  ShardStats stats;  // over all shards
  uint64_t resent = 0;
  Duration took{};
  size_t evaluations = 0;
  uint64_t crashes = 0;    // of the server
  uint64_t takeovers = 0;  // by a server that followed
  uint64_t moves = 0;      // of shards, that came to their end
  uint64_t undone_moves = 0;
  uint64_t joined_crashes = 0;  // of servers that joined
  uint64_t images = 0;          // of its shards' journals
  uint64_t power_losses = 0;    // of servers' machines
  uint64_t torn_images = 0;     // that were passed over
  uint64_t server_pauses = 0;
  std::vector<std::string> trace;  // its tail, when asked for
};

// Not thread-safe. Runs one scenario once.
class Cluster final : public World {
 public:
  Cluster(const Scenario& scenario, bool trace);
  Outcome Run();

  // REQUIRES: the server is up.
  CoordinatorCore& coordinator() { return server_->coordinator(); }
  void Ask(Worker* worker, ControlRequest request, Answered answer) override;
  void SendToShard(Worker* worker, uint32_t server, uint32_t shard,
                   const Message& message) override;
  void Ended(Worker* worker) override;
  void FoundOut(const std::string& what) override;
  void CountResent(uint64_t messages) override { outcome_.resent += messages; }

  // For the server: what a shard, as it is now, has for a worker.
  void Answer(uint32_t process, uint32_t server, uint32_t shard, Message message,
              const ShardCore& core);

 private:
  static constexpr uint32_t kMostShards = 1024;

  Link ToShard(uint32_t process, uint32_t server, uint32_t shard) const {
    return {process, server * kMostShards + shard};
  }
  Link ToCoordinator(uint32_t process) const { return {process, UINT32_MAX}; }
  void Attempt(Worker* worker, const ControlRequest& request, std::shared_ptr<bool> answered,
               Answered answer);
  absl::StatusOr<ControlReply> Handle(const ControlRequest& request, Effects* effects);
  void StartProcess();
  void PlanMisfortunes();
  // Those that somebody wrote down (cluster_events.cc).
  void PlanEvents();
  void Happen(const Event& event);
  void HappenToWorker(const Event& event);
  void ChangeRates(const Event& event);
  void Drain();
  Worker* AnyWorker();
  void Tick();
  bool Over() const;
  void CheckEnd();
  void Mix(uint64_t value);

  Network network_;
  Chance chance_;
  std::unique_ptr<Server> server_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Time start_{};
  Outcome outcome_;
};

}  // namespace psgd::sim
