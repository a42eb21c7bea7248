// Expands a sweep's file into runs.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "proto/sweep.pb.h"

namespace psgd {

// What distinguishes a run in its sweep: pairs of an axis and a value. In the order of the file.
using AxisValues = std::vector<std::pair<std::string, std::string>>;

struct PlannedRun {
  std::string id;     // hash of what the run computes, so equal settings have one id in all sweeps
  std::string label;  // for people; shared by runs that differ only in their seeds
  AxisValues axes;
  Config config;  // resolved and valid
  SweepLaunch launch;
  bool twin = false;    // dense and synchronous: other runs are compared with this one
  std::string twin_id;  // the twin with the same seed; empty: none

  std::string LabelWithSeed() const;
};

struct RunPlan {
  std::vector<PlannedRun> runs;    // in their order of start
  std::vector<std::string> notes;  // for people: what was left out, and why
};

// The config that the sweep starts from. A relative path is relative to `sweep_file`.
absl::StatusOr<Config> BaseConfig(const Sweep& sweep, const std::string& sweep_file);

// Combines every list entry, grid point and random draw with every seed; twins come first. Draws
// depend only on random.seed. The error names the invalid runs.
absl::StatusOr<RunPlan> ExpandSweep(const Sweep& sweep, const Config& base);

std::string RunId(const Config& config, const SweepLaunch& launch);

// Writes "{topk: {density: 0.01}}" as "topk density 0.01".
std::string ReadableSetting(const std::string& value);

// Writes "consistency.staleness" as "staleness".
std::string ShortKey(const std::string& key);

// For example "push topk, staleness 4".
std::string AxesLabel(const AxisValues& axes);

// Names a list entry by its settings, if the file gives no name.
std::string NameOf(const SweepVariant& variant);

}  // namespace psgd
