// What asha decides of a sweep's runs. Every decision is in the sweep's directory before it counts,
// so that it stands whoever is killed afterwards.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "experiment/plan/asha.h"
#include "experiment/plan/expand.h"
#include "experiment/plan/sweep_dir.h"
#include "experiment/report/run_data.h"

namespace psgd {

// Whether its rungs rise, and at each of them a run can be stopped.
absl::Status CheckAsha(const SweepAsha& asha, const std::vector<PlannedRun>& runs);

// What it stops runs by, to be kept with those that it stopped.
std::string RuleOf(const SweepAsha& asha);

// Forgets earlier sittings' word that runs are to stop, where the sweep's file stops none any more
// or by another rule, where they became twins, or where nothing is left of them; how many. They
// then go on from their checkpoints. To be called before Rungs::Recall.
size_t ForgetStopped(const SweepAsha* asha, const SweepDir& dir,
                     const std::vector<PlannedRun>& runs);

// Not thread-safe.
class Rungs {
 public:
  // `runs` outlive it.
  Rungs(const SweepAsha& asha, SweepDir dir, const std::vector<PlannedRun>& runs);

  // What earlier sittings decided. To be called before anything else is decided.
  void Recall();

  // False: the run is to stop, and has an outcome that says so.
  bool GoesOn(const PlannedRun& run, const std::vector<CurvePoint>& curve);

  // What others are compared with is seen to its end, and no rung counts it.
  bool IsTwin(const std::string& id) const { return twins_.count(id) > 0; }

 private:
  const SweepDir dir_;
  const std::vector<PlannedRun>& runs_;
  Asha asha_;
  const std::string rule_;
  std::set<std::string> twins_;
  std::map<std::string, std::vector<AtRung>> reached_;  // by run, as its file has it
};

}  // namespace psgd
