// The coordinator decides who is in, who trains on what, when a checkpoint is taken, and when the
// run is over. A state machine without IO, threads or wall clock: requests and time go in, replies
// and shard commands come out. RunLeader drives it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "proto/control.pb.h"
#include "proto/journal.pb.h"
#include "server/coordinator/agreed_model.h"
#include "server/coordinator/checkpoint_schedule.h"
#include "server/coordinator/data_ledger.h"
#include "server/coordinator/membership.h"
#include "server/coordinator/pending_evaluations.h"
#include "server/coordinator/run_state.h"
#include "server/coordinator/run_totals.h"
#include "server/shard/quarantine.h"
#include "server/shard/shard_command.h"

namespace psgd {

struct CoordinatorOptions {
  Config config;  // resolved
  std::optional<CoordinatorSnapshot> resume;
  std::shared_ptr<const LoadedCheckpoint> checkpoint;   // with `resume`
  std::shared_ptr<const GivenWeights> given = nullptr;  // weights of a model that comes from a file
  uint32_t first_incarnation = 1;                       // lowest incarnation of a worker that joins
  uint64_t last_checkpoint = 0;                         // ids up to this one are taken
  uint64_t memory = 0;                                  // bytes that shards may take; 0: unknown
};

// What must happen outside before the reply to the request is sent.
struct Effects {
  std::vector<ShardCommand> commands;
  std::vector<std::string> news;  // for the log and for people
};

LedgerOptions LedgerOptionsFor(const Config& config, uint64_t batches_per_epoch);

// Not thread-safe.
class CoordinatorCore {
 public:
  explicit CoordinatorCore(CoordinatorOptions options);

  absl::StatusOr<JoinReply> Join(const JoinRequest& request, Time now, Effects* effects);
  // Takes the model of the checkpoint that the run goes on from, so that its weights can be read
  // before a worker is there. The caller supplies the endpoints. REQUIRES: options.checkpoint is
  // set, and no worker has registered.
  absl::Status Resume(const std::vector<std::string>& endpoints, Effects* effects);
  // The first registration fixes the model. If the first worker brings it (`model: client`), that
  // worker gives the weights and registers again, and the others wait.
  absl::StatusOr<RegisterReply> Register(const RegisterRequest& request,
                                         const std::vector<std::string>& endpoints, Time now,
                                         Effects* effects);
  // A part of the first weights of the model that this worker brings.
  absl::Status GiveWeights(const GiveWeightsRequest& request, Time now);
  absl::StatusOr<NextSegmentReply> NextSegment(const NextSegmentRequest& request, Time now,
                                               Effects* effects);
  absl::Status Evaluated(const EvaluatedRequest& request, Time now, Effects* effects);
  // For programs that evaluate by themselves: whether another one has reported these weights
  // before, and the epoch has not gone on since.
  bool HasEvaluation(const EvalResult& result) const;
  absl::StatusOr<HeartbeatReply> Heartbeat(const HeartbeatRequest& request, Time now);
  // The request came before, and its answer was lost.
  bool HasCounted(const HeartbeatRequest& request) const;
  absl::Status Leave(const LeaveRequest& request, Time now, Effects* effects);

  // A shard refuses to hear the worker any more, so the worker is out. The run fails if no other
  // worker is in.
  void Quarantine(const QuarantinedWorker& worker, Effects* effects);

  // Requests a checkpoint at the next boundary and returns its id. `name`: empty or unused.
  absl::StatusOr<uint64_t> RequestCheckpoint(const std::string& name = "");
  // The checkpoint is durable, or could not be written.
  void CheckpointDone(uint64_t id, const absl::Status& status, Effects* effects);
  // The coordinator's state for the checkpoint under way.
  const std::optional<CoordinatorSnapshot>& checkpoint_under_way() const {
    return checkpoints_.under_way();
  }

  // Finishes what is dealt, takes a checkpoint, and lets the workers go.
  void Drain(const DrainRequest& request, Effects* effects);
  // Asks one worker to push its residual and to leave; the run goes on. NOT_FOUND: the worker is
  // not in.
  absl::Status DrainWorker(uint32_t worker, Effects* effects);
  absl::StatusOr<HyperParameters> SetHyper(const SetHyperRequest& request, Effects* effects);
  // Ends leases that have run out.
  void Tick(Time now, Effects* effects);

  // Everything that the answer to the next request depends on.
  CoordinatorRecord Save(Time now) const;
  // The same without model and placement, which are large and do not change.
  CoordinatorRecord SaveWithoutPlan(Time now) const;
  // Goes on from a saved record. REQUIRES: `record` has a model, and this object has had no
  // request.
  void Restore(const CoordinatorRecord& record, Time now);
  // The shards have new endpoints.
  void MoveShards(const std::vector<std::string>& endpoints) { agreed_.MoveShards(endpoints); }

  StatusReply::State state() const { return run_.state(); }
  // FINISHED or FAILED.
  bool over() const { return run_.over(); }
  // No worker has a lease.
  bool NobodyIsLeft() const { return members_.live() == 0; }
  bool drained() const { return run_.draining(); }
  // People, or a failure, ended the run before its training was done.
  bool asked_to_end() const { return run_.asked_to_end(); }
  // It ends because of a failure.
  bool fails() const { return run_.fails(); }
  // The checkpoint under way is the one at the end of the run.
  bool last_checkpoint_under_way() const { return checkpoints_.LastUnderWay(); }
  const std::vector<EvalResult>& evaluations() const { return totals_.evaluations(); }
  const Config& config() const { return agreed_.config(); }
  const ModelSpec* model() const { return agreed_.model(); }
  const std::shared_ptr<const Placement>& placement() const { return agreed_.placement(); }
  // Everything but servers, shards and checkpoints, which the caller adds.
  StatusReply Status(Time now) const;
  // The names, for people, of those `workers` that only train. A worker that evaluates may take its
  // time.
  std::vector<std::string> NamesOfTraining(std::span<const uint32_t> workers) const;
  std::vector<std::string> NamesOfLive(std::span<const uint32_t> workers) const;
  // When the worker last said anything; unknown workers are never silent.
  Time LastHeard(uint32_t worker) const;
  // The workers for which others wait at the end of the run, because they have not finished what is
  // dealt or the last evaluation. Sets slowest_clock and late_workers, as in the status of a shard.
  ShardStatus LateAtTheEnd() const;
  double SecondsTrained(Time now) const { return totals_.SecondsTrained(now); }
  // The samples in the total from before the run was resumed. SecondsTrained began after them.
  uint64_t samples_before() const { return totals_.samples_before(); }
  uint64_t batches_per_epoch() const { return agreed_.batches_per_epoch(); }
  uint64_t train_samples() const { return agreed_.train_samples(); }

 private:
  // Removes a worker that did not say good-bye.
  void Lose(uint32_t worker, const std::string& note, Effects* effects);
  void Remove(uint32_t worker, const std::string& note, Effects* effects);
  void TellIfNoneIsLeft(Effects* effects) const;
  // Returns the worker's undone batches to the ledger.
  void GiveBack(uint32_t worker, uint64_t clock);
  // `norm`: of the worker's residual.
  void SetResidual(MemberState& member, double norm);
  // Counts the residual of a worker that left as lost: nobody else has it.
  void CountGone(MemberState& member, bool before_checkpoint, Effects* effects);
  // The workers' programs evaluate by themselves, and report what they choose.
  bool EvaluatesByItself() const { return agreed_.IsBrought(); }
  // The model is fixed: begins its ledger, and orders the shards to make it.
  absl::Status Install(absl::StatusOr<InstallModel> model, Effects* effects);
  absl::Status CountEvaluation(const EvalResult& result, Effects* effects);
  // A checkpoint of whole epochs may lack the evaluation of its weights, which came later. If
  // train.early_stop or durability.keep_best needs it, a worker evaluates these weights again.
  void EvaluateCheckpoint(const CheckpointManifest& manifest);
  // Opens the boundary after the latest segment: deals the next one and starts a due checkpoint.
  void OpenBoundary(Time now, Effects* effects);
  // `last`: the run ends with it.
  void StartCheckpoint(bool last, Effects* effects);
  bool AllFinished(uint64_t segment) const;
  // The worker trains up to the boundary of the checkpoint under way: what it reports belongs to
  // the checkpoint.
  bool IsBeforeCheckpoint(uint32_t worker) const;
  bool RunsIn(uint32_t worker, uint64_t segment) const;
  // Each worker's steps in a clock of the next segment; empty: one.
  std::vector<uint32_t> StepsOf(const std::vector<uint32_t>& workers) const;
  // An evaluation begins once all workers have finished the segment. The worker that is furthest
  // makes it, so that a slow worker does not fall further behind. Workers at the same clock leave
  // it to the last worker to ask.
  void AssignEvaluation(const MemberState& member, NextSegmentReply* reply);
  NextSegmentReply Wait(std::string reason) const;
  void EndRun(Time now);
  NextSegmentReply Finish(Time now, Effects* effects, NextSegmentReply reply);
  // False: the last checkpoint is under way, or begins now.
  bool LastCheckpointTaken(Effects* effects);
  // No worker is left, because training diverged.
  bool EndsDiverged() const;

  const CoordinatorOptions options_;
  AgreedModel agreed_;
  Membership members_;
  CheckpointSchedule checkpoints_;
  RunTotals totals_;
  std::optional<DataLedger> ledger_;
  HyperParameters hyper_;
  RunState run_;
  bool loads_state_ = false;  // the run went on from a checkpoint
  bool all_dealt_ = false;    // no further segment will be dealt
  PendingEvaluations pending_evaluations_;
};

}  // namespace psgd
