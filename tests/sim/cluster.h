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

namespace psgd::sim {

struct Outcome {
  std::vector<std::string> breaches;
  std::string found_out;                            // that acknowledged pushes are lost, where they may be; the run's end
  uint64_t hash = 0;                                // of everything that happened
  std::map<uint32_t, std::vector<float>> weights;   // by slice, at the end
  Oracle::Counts counts;
  ShardStats stats;                                 // over all shards
  uint64_t resent = 0;
  Duration took{};
  size_t evaluations = 0;
  uint64_t crashes = 0;                             // of the server
  uint64_t takeovers = 0;                           // by a server that followed
  uint64_t moves = 0;                               // of shards, that came to their end
  uint64_t undone_moves = 0;
  uint64_t joined_crashes = 0;                      // of servers that joined
  uint64_t images = 0;                              // of its shards' journals
  uint64_t power_losses = 0;                        // of servers' machines
  uint64_t torn_images = 0;                         // that were passed over
  uint64_t server_pauses = 0;
  std::vector<std::string> trace;                   // its tail, when asked for
};

// Not thread-safe. Runs one scenario once.
class Cluster {
 public:
  Cluster(const Scenario& scenario, bool trace);
  Outcome Run();

  // For workers.
  EventQueue& queue() { return queue_; }
  Oracle& oracle() { return oracle_; }
  const Scenario& scenario() const { return scenario_; }
  const CodecTable& codecs() const { return codecs_; }
  // REQUIRES: the server is up, as it is where Call asks.
  CoordinatorCore& coordinator() { return server_->coordinator(); }
  Server& server() { return *server_; }
  // `server`: where it is said to be.
  void SendToShard(Worker* worker, uint32_t server, uint32_t shard, const Message& message);
  void Note(const std::string& what);
  bool tracing() const { return tracing_; }
  void Ended(Worker* worker);
  // Somebody noticed that what was acknowledged is lost: right where it may be, and wrong elsewhere.
  void FoundOut(const std::string& what);
  void CountResent(uint64_t messages) { outcome_.resent += messages; }

  // For the server: what a shard, as it is now, has for a worker.
  void Answer(uint32_t process, uint32_t server, uint32_t shard, Message message, const ShardCore& core);

  // Asks the coordinator until an answer comes, as worker/control_client does.
  template <typename Reply>
  void Call(Worker* worker, std::function<absl::StatusOr<Reply>(Effects*)> ask,
            std::function<void(absl::StatusOr<Reply>)> answer);

 private:
  static constexpr uint32_t kMostShards = 1024;

  Link ToShard(uint32_t process, uint32_t server, uint32_t shard) const {
    return {process, server * kMostShards + shard};
  }
  Link ToCoordinator(uint32_t process) const { return {process, UINT32_MAX}; }
  template <typename Reply>
  void Attempt(Worker* worker, std::function<absl::StatusOr<Reply>(Effects*)> ask,
               std::shared_ptr<bool> answered,
               std::function<void(absl::StatusOr<Reply>)> answer);
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

  const Scenario scenario_;
  const bool tracing_;
  const CodecTable codecs_;
  EventQueue queue_;
  Network network_;
  Chance chance_;
  Oracle oracle_;
  std::unique_ptr<Server> server_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Time start_{};
  Outcome outcome_;
  std::deque<std::string> trace_;
};

template <typename Reply>
void Cluster::Call(Worker* worker, std::function<absl::StatusOr<Reply>(Effects*)> ask,
                   std::function<void(absl::StatusOr<Reply>)> answer) {
  Attempt<Reply>(worker, std::move(ask), std::make_shared<bool>(false), std::move(answer));
}

template <typename Reply>
void Cluster::Attempt(Worker* worker, std::function<absl::StatusOr<Reply>(Effects*)> ask,
                      std::shared_ptr<bool> answered,
                      std::function<void(absl::StatusOr<Reply>)> answer) {
  constexpr Duration kRetry = std::chrono::milliseconds(150);
  const Link link = ToCoordinator(worker->process());
  network_.Send(link, true, [=, this] {
    server_->WhenAwake([=, this] {
      if (!server_->up()) return;
      Effects effects;
      absl::StatusOr<Reply> reply = ask(&effects);
      if (reply.ok()) server_->Heard(worker->key());
      if (!server_->Apply(std::move(effects))) return;
      network_.Send(link, false, [=] {
        if (*answered) return;
        *answered = true;
        worker->Post([=] { answer(reply); });
      });
    });
  });
  queue_.After(kRetry, [=, this] {
    if (!*answered && !worker->dead()) Attempt<Reply>(worker, ask, answered, answer);
  });
}

}  // namespace psgd::sim
