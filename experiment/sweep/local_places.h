// Runs on this machine, each with its share of cores and GPUs.
#pragma once

#include <vector>

#include "experiment/plan/resources.h"
#include "experiment/plan/sweep_dir.h"
#include "experiment/sweep/run_places.h"

namespace psgd {

class LocalPlaces : public RunPlaces {
 public:
  LocalPlaces(SweepDir dir, std::vector<Share> shares)
      : dir_(std::move(dir)), shares_(std::move(shares)) {}

  size_t slots() const override { return shares_.size(); }
  absl::StatusOr<RunCommand> Command(const PlannedRun& run, size_t slot, bool resume) override;
  void Stop(const PlannedRun& run, ChildProcess& child, bool at_once) override;

 private:
  const SweepDir dir_;
  const std::vector<Share> shares_;
};

}  // namespace psgd
