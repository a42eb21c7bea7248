// The directory of a sweep. It holds all files of the sweep and all that is known of its runs, so a
// sweep that was killed continues where it was.
//
//   DIR/sweep.yaml             a copy of the sweep's file
//   DIR/plan.json              the runs, in order
//   DIR/configs/ID.yaml        a run's resolved config
//   DIR/runs/ID/               the run directory
//   DIR/logs/ID.log            the output of ps-run
//   DIR/outcomes/ID.json       what the run directory cannot tell: a failure, or asha's decision
//   DIR/rungs/ID.json          the rungs of asha that the run passed, and its results there
//   DIR/failed/ID-N/           run directories of failed attempts that were repeated
//   DIR/locks/ID               held as long as any process of the run lives
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "experiment/plan/asha.h"
#include "experiment/plan/expand.h"

namespace psgd {

// The entry of a run in plan.json.
struct PlanEntry {
  std::string id;
  std::string label;
  AxisValues axes;
  uint64_t seed = 0;
  bool twin = false;
  std::string twin_id;
};

struct SweepPlan {
  std::string name;
  std::string question;
  std::vector<PlanEntry> runs;
  std::vector<std::string> shared =
      {};  // resources that parallel runs shared, in any ps-sweep of this directory
};

// The decision about a run.
struct Outcome {
  enum class Kind { kFailed, kStopped, kFinished };
  Kind kind = Kind::kFailed;
  std::string detail;     // for people
  double epoch = 0;       // the epoch after which the run was stopped
  std::string rule = {};  // asha's rule that stopped it; empty also if an older ps-sweep stopped it
};

// A file that stays locked until this object and all processes with its descriptor are gone.
class HeldLock {
 public:
  // Returns null if another holder has the lock.
  static absl::StatusOr<std::unique_ptr<HeldLock>> Try(const std::string& path);
  ~HeldLock();
  HeldLock(const HeldLock&) = delete;
  HeldLock& operator=(const HeldLock&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  explicit HeldLock(int descriptor) : descriptor_(descriptor) {}
  const int descriptor_;
};

// Names the files and folders of a sweep. Immutable.
class SweepDir {
 public:
  explicit SweepDir(std::string path) : path_(std::move(path)) {}

  // Creates missing folders.
  absl::Status Make() const;
  // NOT_FOUND: the directory is not a sweep's.
  absl::StatusOr<SweepPlan> ReadPlan() const;
  absl::Status WritePlan(const SweepPlan& plan) const;

  // Returns nothing if there is no outcome, or only part of one after a crash.
  std::optional<Outcome> ReadOutcome(const std::string& id) const;
  absl::Status WriteOutcome(const std::string& id, const Outcome& outcome) const;
  void ForgetOutcome(const std::string& id) const;

  // As ReadOutcome; empty: the run passed no rung.
  std::vector<AtRung> ReadRungs(const std::string& id) const;
  absl::Status WriteRungs(const std::string& id, const std::vector<AtRung>& reached) const;
  void ForgetRungs(const std::string& id) const;

  // Moves the run's directory to failed/, before another attempt.
  absl::Status PutAway(const std::string& id) const;

  const std::string& path() const { return path_; }
  std::string PlanFile() const { return path_ + "/plan.json"; }
  std::string SweepFile() const { return path_ + "/sweep.yaml"; }
  std::string LockFile() const { return path_ + "/locks/sweep"; }
  std::string ConfigFile(const std::string& id) const { return path_ + "/configs/" + id + ".yaml"; }
  std::string RunPath(const std::string& id) const { return path_ + "/runs/" + id; }
  std::string LogFile(const std::string& id) const { return path_ + "/logs/" + id + ".log"; }
  std::string OutcomeFile(const std::string& id) const {
    return path_ + "/outcomes/" + id + ".json";
  }
  std::string RungsFile(const std::string& id) const { return path_ + "/rungs/" + id + ".json"; }
  std::string RunLock(const std::string& id) const { return path_ + "/locks/" + id; }

 private:
  const std::string path_;
};

SweepPlan PlanOf(const Sweep& sweep, const RunPlan& runs);

}  // namespace psgd
