// Asha's decisions about a sweep's runs. Each decision is on disk before it counts, so it survives
// a kill.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/status.h"
#include "experiment/plan/asha.h"
#include "experiment/plan/expand.h"
#include "experiment/plan/sweep_dir.h"
#include "experiment/report/run_data.h"

namespace psgd {

// Checks that the rungs rise and that each rung can stop a run.
absl::Status CheckAsha(const SweepAsha& asha, const std::vector<PlannedRun>& runs);

// The rule as text, stored with the runs that it stopped.
std::string RuleOf(const SweepAsha& asha);

// Forgets earlier decisions to stop a run if the sweep's file now has no asha or another rule, if
// the run became a twin, or if its directory is gone. Such runs resume from their checkpoints.
// Returns their number.
// Call this before Rungs::Recall.
size_t ForgetStopped(const SweepAsha* asha, const SweepDir& dir,
                     const std::vector<PlannedRun>& runs);

// Not thread-safe.
class Rungs {
 public:
  // `runs` must outlive this object.
  Rungs(const SweepAsha& asha, SweepDir dir, const std::vector<PlannedRun>& runs);

  // Reads earlier decisions. Call this before any new decision.
  void Recall();

  // An error if the program of a run does not report what asha compares, although the run has
  // passed the first rung or has `ended`.
  absl::Status CheckMeasured(const PlannedRun& run, const MetricsFollower& metrics,
                             bool ended) const;

  // Returns false if the run must stop; its outcome is then on disk.
  bool GoesOn(const PlannedRun& run, const std::vector<CurvePoint>& curve);

  // Runs that others are compared with always finish, and no rung counts them.
  bool IsTwin(const std::string& id) const { return twins_.count(id) > 0; }

 private:
  const SweepDir dir_;
  const std::vector<PlannedRun>& runs_;
  const SweepAsha settings_;
  Asha asha_;
  const std::string rule_;
  std::set<std::string> twins_;
  std::map<std::string, std::vector<AtRung>> reached_;  // by run, as in its file
};

}  // namespace psgd
