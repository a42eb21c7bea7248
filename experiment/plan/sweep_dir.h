// The directory of a sweep: where everything that it leaves behind has its place, and what is known
// of its runs. All that is known is in files, so that a sweep which was killed goes on where it
// was.
//
//   DIR/sweep.yaml             as it was given
//   DIR/plan.json              the runs, in order
//   DIR/configs/ID.yaml        of each run, resolved
//   DIR/runs/ID/               its run directory
//   DIR/logs/ID.log            what ps-run said
//   DIR/outcomes/ID.json       what its run directory cannot tell: that it failed, or what asha
//                              decided
//   DIR/rungs/ID.json          the rungs of asha that it passed, and with what
//   DIR/failed/ID-N/           run directories of attempts that failed and were repeated
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

// What plan.json has of a run.
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
      {};  // what runs at a time had not to themselves, in any sitting
};

// What was decided of a run.
struct Outcome {
  enum class Kind { kFailed, kStopped, kFinished };
  Kind kind = Kind::kFailed;
  std::string detail;     // for people
  double epoch = 0;       // after which it was stopped
  std::string rule = {};  // of asha, that stopped it; empty also where an older ps-sweep did
};

// A file that is locked until this object and all processes that inherited its descriptor are gone.
class HeldLock {
 public:
  // Nothing: somebody else holds it.
  static absl::StatusOr<std::unique_ptr<HeldLock>> Try(const std::string& path);
  ~HeldLock();
  HeldLock(const HeldLock&) = delete;
  HeldLock& operator=(const HeldLock&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  explicit HeldLock(int descriptor) : descriptor_(descriptor) {}
  const int descriptor_;
};

// Names of files and folders. Immutable.
class SweepDir {
 public:
  explicit SweepDir(std::string path) : path_(std::move(path)) {}

  // Makes the folders that are missing.
  absl::Status Make() const;
  // NOT_FOUND: that is no sweep's directory.
  absl::StatusOr<SweepPlan> ReadPlan() const;
  absl::Status WritePlan(const SweepPlan& plan) const;

  // Nothing where there is none, or what a crash left of one.
  std::optional<Outcome> ReadOutcome(const std::string& id) const;
  absl::Status WriteOutcome(const std::string& id, const Outcome& outcome) const;
  void ForgetOutcome(const std::string& id) const;

  // As outcomes; empty: it passed none.
  std::vector<AtRung> ReadRungs(const std::string& id) const;
  absl::Status WriteRungs(const std::string& id, const std::vector<AtRung>& reached) const;
  void ForgetRungs(const std::string& id) const;

  // Puts the run's directory away under failed/, for another attempt.
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
