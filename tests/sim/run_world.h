// One simulated run of servers with copies: the production ServerCore, CopyCore and session cores,
// joined by a simulated network and run store, and watched by an oracle.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/network.h"
#include "tests/sim/sabotage.h"
#include "tests/sim/sim_server.h"
#include "tests/sim/sim_store.h"
#include "tests/sim/worker.h"
#include "tests/sim/world.h"

namespace psgd::sim {

// What may go wrong beside what Scenario says; of servers, machine 0 is the first.
struct RunFaults {
  int machines = 3;
  size_t copies = 2;
  bool shared_store = true;  // etcd: any server may lead the run
  int kills = 0;             // of any server
  int answer_kills = 0;      // of a server right after it acknowledged a push
  int power_losses = 0;
  bool kills_workers = false;  // with each server, as one that runs on its machine
  double deleted_disks =
      0;  // share of deaths after which the disk is empty, where others have all that is on it
  int pauses = 0;
  int cuts = 0;  // between two servers, in one direction or both
  int store_outages = 0;
  double lost_answers = 0;  // of the store
  Duration image_pause{};   // the longest between two parts of an image for another copy
  // Not 0: all processes end then, and another run goes on from the last checkpoint, if there is
  // one. It also does that once a run was drained.
  Duration given_up_after{};
  // Share of resumed runs whose first server dies soon, perhaps before training begins.
  double early_deaths = 0;
  int leaves = 0;
  int rebalances = 0;
  CopyBug bug = CopyBug::kNone;
};

struct RunOutcome {
  std::vector<std::string> breaches;
  uint64_t hash = 0;
  std::map<uint32_t, std::vector<float>> weights;
  Oracle::Counts counts;
  Duration took{};
  uint64_t resent = 0, deaths = 0, promotions = 0, takeovers = 0, moves = 0, images = 0;
  uint64_t leaves = 0, workers_cut_off = 0, quarantined = 0;
  uint64_t resumed = 0;
  uint64_t begun_again = 0;  // because the only server with the checkpoint died before training
  uint64_t images_in_parts = 0, images_broken_off = 0;  // of those for other copies
  std::vector<std::string> trace;
};

// Not thread-safe. Runs one scenario once.
class RunWorld final : public World {
 public:
  RunWorld(const Scenario& scenario, const RunFaults& faults, bool trace);
  // Goes on from the last checkpoint of `earlier`. REQUIRES: earlier.MayGoOn().
  RunWorld(const Scenario& scenario, const RunFaults& faults, bool trace, const RunWorld& earlier);
  ~RunWorld() override;
  RunOutcome Run();
  // It has run, was given up or drained, and has a checkpoint.
  bool MayGoOn() const;
  // The server that had the checkpoint died before training began, so a person starts it again.
  bool must_begin_again() const { return must_begin_again_ && oracle_.breaches().empty(); }

  void Ask(Worker* worker, ControlRequest request, Answered answer) override;
  void SendToShard(Worker* worker, uint32_t machine, uint32_t shard,
                   const Message& message) override;
  void Ended(Worker*) override {}
  void FoundOut(const std::string& what) override { oracle_.Breach(what); }
  void CountResent(uint64_t messages) override { outcome_.resent += messages; }

  // For servers.
  Saboteur& saboteur() { return saboteur_; }
  const RunFaults& faults() const { return faults_; }
  SimStore& store() { return store_; }
  void AnswerRequest(uint64_t request, absl::StatusOr<ControlReply> reply);
  void AnswerWorker(uint32_t machine, uint32_t shard, Outgoing outgoing, const ShardCore& core);
  // What arrives in the order in which it was sent.
  struct Stream {
    uint32_t from = 0, to = 0;  // machines
    uint32_t number = 0;
    auto operator<=>(const Stream&) const = default;
  };
  // The copies of each shard have a stream of their own.
  static constexpr uint32_t kRunStream = 0;
  static uint32_t StreamOf(uint32_t shard) { return 1 + shard; }
  // Brings a message, no sooner than `pause` after the one before it. `lost` is called where the
  // machines are cut off.
  void Carry(Stream stream, Duration pause, std::function<void()> deliver,
             std::function<void()> lost);
  // What a machine that died has sent last may be lost.
  void Died(uint32_t machine);
  bool AreCut(uint32_t from, uint32_t to) const;
  bool IsCutOff(uint32_t machine) const;  // from any other
  SimServer* MachineOf(uint32_t server);
  SimServer& machine(uint32_t index) { return *machines_[index]; }
  uint32_t machines() const { return static_cast<uint32_t>(machines_.size()); }
  // `placement`: null before there is one, or if the server stopped leading right after the order.
  void Ordered(const ShardOrderTo& order, std::shared_ptr<const Placement> placement);
  void CutTaken(uint32_t shard, const ShardCut& cut);
  // The run's leader begins to write the part; and has sealed the checkpoint, with the parts that
  // were written last.
  void PartWritten(uint32_t shard, std::shared_ptr<const ShardCut> cut) { parts_[shard] = cut; }
  void Sealed(const CheckpointManifest& manifest);
  // Only the process that begins a run has the checkpoint that the run goes on from. One that joins
  // or is restarted does not read it (apps/server_start.cc).
  CoordinatorOptions CoordinatorOf(bool begins) const;
  void MustBeginAgain() { must_begin_again_ = true; }
  void Mix(uint64_t value);
  RunOutcome& outcome() { return outcome_; }

 private:
  struct Asked {
    Worker* worker = nullptr;
    uint32_t machine = 0;
    ControlRequest request;
    std::function<void(absl::StatusOr<ControlReply>)> answer;
  };

  void Attempt(Worker* worker, const ControlRequest& request, std::shared_ptr<bool> answered,
               Answered answer);
  // Also in the earlier run.
  size_t started() const { return started_before_ + workers_.size(); }
  void StartProcess();
  void PlanMisfortunes();
  Worker* AnyWorker();  // null: none trains
  void KillWorker();
  void KillAny(bool power);
  void MayDieAfter(uint32_t machine, const Message& answer);
  bool IsReportedSilent(uint32_t shard, uint32_t server) const;
  // Every shard that it has in sync is in sync elsewhere, too.
  bool CanLoseDisk(const SimServer& server) const;
  bool CanLoseDisk(const SimServer& server, const RunRecord& record) const;
  // The leading copy of one of its shards has lost its disk, and the record does not know it yet. A
  // restart now would be the second fault at once: the run's leader would go on with the lost copy.
  bool IsNeededNow(const SimServer& server) const;
  void CutAny();
  void CutWorker();
  void Tick();
  bool Over() const;
  void CheckLeaders();
  // No copy in sync is further behind another shard than a restarted server believes.
  void CheckClocks();
  void CheckEnd();
  // The disk makes the very weights that the copy has.
  void CheckDisk(SimServer* machine, uint32_t shard);
  SimServer* Leading();

  const RunFaults faults_;
  Network network_;
  Chance chance_;
  SimStore store_;
  Saboteur saboteur_;
  std::vector<std::unique_ptr<SimServer>> machines_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::map<uint32_t, uint32_t> asks_;  // by process: the machine that it asks
  std::map<uint64_t, Asked> asked_;
  uint64_t next_request_ = 1;
  std::map<std::pair<uint32_t, uint32_t>, Time> cuts_;
  std::map<Stream, Time> last_arrival_;
  std::map<uint32_t, Time> heard_until_;    // by machine that died
  std::map<uint32_t, WorkerKey> admitted_;  // the newest, by worker
  uint64_t last_segment_ = 0, last_checkpoint_ = 0;
  std::shared_ptr<const Placement> placement_;  // as a leader last had it
  std::set<uint32_t> cut_taken_;
  std::map<uint32_t, std::shared_ptr<const ShardCut>> parts_;  // by shard
  std::optional<CheckpointManifest> sealed_;                   // the last one, with its parts
  std::vector<ShardSnapshot> sealed_parts_;
  CoordinatorOptions coordinator_;
  size_t started_before_ = 0;
  int answer_kills_ = 0;  // that are left
  Time start_{};
  bool must_begin_again_ = false;
  RunOutcome outcome_;
};

// Runs the scenario, and where the faults say so a second run that goes on from a checkpoint.
RunOutcome Simulate(const Scenario& scenario, const RunFaults& faults, bool trace);
// One server, to which nothing happens.
RunFaults OneServer();
// Everything drawn from the seed.
std::pair<Scenario, RunFaults> RandomRun(uint64_t seed);
// Empty when all is well; otherwise what to read: the seed, what happened last, the breaches.
std::string Failure(const Scenario& scenario, const RunFaults& faults);
std::string Describe(const Scenario& scenario, const RunFaults& faults);

}  // namespace psgd::sim
