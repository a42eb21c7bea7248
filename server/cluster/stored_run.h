// What the run store has of the run, and the write of newer decisions that is under way.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "common/clock.h"
#include "common/status.h"
#include "proto/run.pb.h"
#include "server/cluster/copy_assigner.h"
#include "server/cluster/server_effects.h"

namespace psgd {

// The run as decided up to some change, order and checkpoint.
struct DecidedRun {
  RunRecord record;
  uint64_t changes = 0;          // number of the last change in it
  uint64_t last_order = 0;       // orders up to this one
  uint64_t checkpoint_done = 0;  // checkpoints up to this one have ended
  CopyAssigner::Mark copies;     // what `record` takes into account
};

// Not thread-safe.
class StoredRun {
 public:
  // The store has `run` at this revision.
  StoredRun(int64_t revision, DecidedRun run) : revision_(revision), run_(std::move(run)) {}

  // What the store has.
  const DecidedRun& run() const { return run_; }
  int64_t revision() const { return revision_; }
  // Null: training has not begun.
  const std::shared_ptr<const RunPlan>& plan() const { return plan_; }
  // The next write stores this plan, too.
  void SetPlan(std::shared_ptr<const RunPlan> plan);
  // This server takes over the run. It found the plan in the store, and the numbers in the run's
  // record.
  void Restore(std::shared_ptr<const RunPlan> plan, uint64_t last_order, uint64_t checkpoint_done);
  // The shards' first images have the orders up to this one.
  void InFirstImages(uint64_t last_order) { run_.last_order = last_order; }
  // The record needs no change to take this into account.
  void TakesIntoAccount(CopyAssigner::Mark copies) { run_.copies = copies; }
  // Why the last write failed; empty: it did not.
  const std::string& trouble() const { return trouble_; }

  // No write is under way, and none failed a moment ago.
  bool MayWrite(Time now) const { return !under_way_ && now >= again_; }
  // Repeats the last write if it failed: it may have succeeded all the same, and the store would
  // take a different record for another server's. False: it did not fail. REQUIRES: MayWrite.
  bool WriteAgain(ServerEffects* effects);
  // REQUIRES: MayWrite, and WriteAgain returns false.
  void Write(DecidedRun run, ServerEffects* effects);
  // False: nothing new is in the store. ABORTED: another server has written, so this one does not
  // lead.
  bool Written(const absl::StatusOr<int64_t>& revision, Time now);

 private:
  int64_t revision_;
  DecidedRun run_;
  bool under_way_ = false;
  DecidedRun writing_;
  std::shared_ptr<const RunPlan> plan_;
  std::shared_ptr<const RunPlan> writing_plan_;  // null: the store has the plan
  bool plan_stored_ = false;                     // or being written
  Time again_{};
  std::string trouble_;
};

}  // namespace psgd
