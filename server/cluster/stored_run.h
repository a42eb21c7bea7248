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
  // For what is stored without a write of this object: as the run is restored, by the shards' first
  // images, and when nothing is left to write.
  DecidedRun& run() { return run_; }
  int64_t revision() const { return revision_; }
  // Why the last write failed; empty: it did not.
  const std::string& trouble() const { return trouble_; }

  // No write is under way, and none failed a moment ago.
  bool MayWrite(Time now) const { return !under_way_ && now >= again_; }
  // Repeats the last write if it failed: it may have succeeded all the same, and the store would
  // take a different record for another server's. False: it did not fail. REQUIRES: MayWrite.
  bool WriteAgain(ServerEffects* effects);
  // `plan`: null if the store has it. REQUIRES: MayWrite, and WriteAgain returns false.
  void Write(DecidedRun run, std::shared_ptr<const RunPlan> plan, ServerEffects* effects);
  // False: nothing new is in the store. ABORTED: another server has written, so this one does not
  // lead.
  bool Written(const absl::StatusOr<int64_t>& revision, Time now);

 private:
  int64_t revision_;
  DecidedRun run_;
  bool under_way_ = false;
  DecidedRun writing_;
  std::shared_ptr<const RunPlan> plan_;  // which is written with `writing_`
  Time again_{};
  std::string trouble_;
};

}  // namespace psgd
