// One simulated run of many workers: the production cores, joined by modelled links, on modelled
// hosts.
#pragma once

#include <memory>
#include <vector>

#include "proto/local_steps.h"
#include "proto/sim_model.pb.h"
#include "server/coordinator/coordinator_core.h"
#include "simulate/modelled_shard.h"
#include "simulate/modelled_worker.h"
#include "simulate/prediction.h"
#include "simulate/shared_resource.h"
#include "simulate/traffic.h"

namespace psgd::sim {

struct SimulationOptions {
  SimModel model;
  // A server is beside each worker, and has the links and the processors of the worker's host;
  // server.hosts more servers are on hosts of their own.
  bool servers_on_workers = false;
  uint64_t seed = 1;
  uint64_t clocks = 0;  // 0: enough for the number of workers
  // Where there are more pairs of a worker and a shard, shards of the same traffic are simulated as
  // one.
  int most_flows = 4096;
};

// Where the worker is.
SimSite SiteOf(const SimNetwork& network, uint32_t worker);

// Clocks that tell the speed of so many workers.
uint64_t EnoughClocks(int workers);

// What is computed and encoded until these slices' gradients leave.
struct GradientPart {
  double time = 0;    // share of a step's computing
  double encode = 0;  // share of its encoding
  std::vector<uint32_t> slices;
};

// Not thread-safe. Runs once.
class ModelledCluster {
 public:
  // `traffic`: of all shards. REQUIRES: it is of that workload, but for the number of workers.
  ModelledCluster(const Workload& workload, const Traffic& traffic,
                  const SimulationOptions& options);
  absl::StatusOr<Prediction> Run();

  // For workers.
  EventQueue& queue() { return queue_; }
  const SimModel& model() const { return options_.model; }
  const Config& config() const { return config_; }
  const Traffic& traffic() const { return traffic_; }
  uint64_t seed() const { return options_.seed; }
  const std::vector<GradientPart>& gradients() const { return gradients_; }
  double InstallSeconds() const { return WeightSeconds() / 2; }
  double EncodeSeconds() const { return WeightSeconds() / 2; }
  // On the host of a worker's process: until `done`, or at the side, with nobody waiting.
  void Spend(uint32_t process, double seconds, double threads, EventQueue::Action done);
  void SpendBeside(uint32_t process, double seconds);
  std::vector<std::unique_ptr<Connection>> ConnectToShards(uint32_t process);
  void SendToShard(ModelledWorker* worker, uint32_t shard, const Message& message, Connection* way);
  absl::StatusOr<JoinReply> Join(const JoinRequest& request);
  absl::Status Register(const WorkerKey& key);
  absl::StatusOr<NextSegmentReply> NextSegment(const NextSegmentRequest& request);
  absl::Status Evaluated(const WorkerKey& key, double epoch);
  absl::Status Heartbeat(const WorkerKey& key, const WorkerReport& report);
  // All clocks that are simulated have been handed out.
  uint64_t Clocks() const {
    return static_cast<uint64_t>(config_.train().max_steps()) / StepsOfClock(config_.local());
  }
  // Where the worker's process is.
  SimSite SiteOf(uint32_t worker) const { return sim::SiteOf(model().network(), worker); }
  bool Dealt() const { return dealt_ >= static_cast<int64_t>(Clocks()); }
  // A worker ends a clock of so many steps.
  void ClockDone(uint64_t steps) { clock_ends_.push_back({queue_.now(), steps}); }
  void GaveUp(const absl::Status& status) { gave_up_.Update(status); }

 private:
  struct WorkerLinks {
    std::shared_ptr<SharedResource> up, down;
    std::vector<std::unique_ptr<Connection>> from_shards;
  };
  struct ServerHost {
    std::shared_ptr<SharedResource> in, out, processors;
  };

  double WeightSeconds() const;
  // Servers on hosts of their own, where others are beside workers: they are the first of `hosts_`.
  uint32_t OwnServers() const { return static_cast<uint32_t>(model().server().hosts()); }
  double ShardsOfHost() const;
  size_t HostOf(uint32_t shard) const;
  // How many of its host's shards a simulated one stands for.
  double ThreadsOf(uint32_t shard) const;
  // Null: there are always enough.
  SharedResource* ProcessorsOf(uint32_t process) const;
  void MakeHosts();
  void MakeShards();
  void MakeGradients();
  Route RouteTo(uint32_t process, uint32_t shard, bool up) const;
  void StartWorker();
  void PlanDeath(ModelledWorker* worker);
  void Tick();
  bool Over() const;
  absl::Status Apply(Effects effects);
  void FromShard(uint32_t shard, PeerId to, std::shared_ptr<const Message> message, double bytes);
  Prediction Result() const;
  void AddTimes(Prediction* prediction) const;
  void AddShares(Prediction* prediction) const;

  const SimulationOptions options_;
  const Workload& workload_;
  Config config_;
  const std::vector<uint32_t> servers_;  // by shard; all 0 where servers have hosts of their own
  const std::vector<ShardGroup> groups_;
  const Traffic traffic_;
  EventQueue queue_;
  Chance chance_;
  CoordinatorCore coordinator_;
  std::vector<GradientPart> gradients_;
  std::vector<ServerHost> hosts_;
  std::vector<std::unique_ptr<ModelledShard>> shards_;
  std::vector<std::unique_ptr<ModelledWorker>> workers_;  // also those that died
  std::vector<WorkerLinks> links_;                        // by process
  int64_t dealt_ = 0;                                     // clocks
  struct ClockEnd {
    Time at{};
    uint64_t steps = 0;
  };
  std::vector<ClockEnd> clock_ends_;
  Time start_{};
  uint64_t deaths_ = 0;
  double pushed_ = 0, pulled_ = 0;
  absl::Status gave_up_;
  HeldShares own_, beside_;
};

}  // namespace psgd::sim
