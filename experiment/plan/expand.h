// A sweep's file to the runs that it asks for.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "proto/sweep.pb.h"

namespace psgd {

// What sets a run apart from the others of a sweep: the axis and where on it. Ordered as in the
// file.
using AxisValues = std::vector<std::pair<std::string, std::string>>;

struct PlannedRun {
  std::string id;     // of what it computes: the same settings have the same id in every sweep
  std::string label;  // for people; runs that differ in their seeds alone share it
  AxisValues axes;
  Config config;  // resolved and valid
  SweepLaunch launch;
  bool twin = false;    // dense and synchronous, what others are compared with
  std::string twin_id;  // of the twin with the same seed; empty: there is none

  std::string LabelWithSeed() const;
};

struct RunPlan {
  std::vector<PlannedRun> runs;    // in the order in which they are to start
  std::vector<std::string> notes;  // for people: what was left out, and why
};

// The config that the sweep begins with. A path is looked for beside `sweep_file`.
absl::StatusOr<Config> BaseConfig(const Sweep& sweep, const std::string& sweep_file);

// Every entry of the list with every point of the grid and every random draw, for every seed, after
// their twins. Draws depend on random.seed alone. The error names the runs that cannot be.
absl::StatusOr<RunPlan> ExpandSweep(const Sweep& sweep, const Config& base);

std::string RunId(const Config& config, const SweepLaunch& launch);

// "{topk: {density: 0.01}}" as "topk density 0.01".
std::string ReadableSetting(const std::string& value);

// "consistency.staleness" as "staleness".
std::string ShortKey(const std::string& key);

// "push topk, staleness 4".
std::string AxesLabel(const AxisValues& axes);

// What an entry of the list is called, where it does not say so itself: by what it sets.
std::string NameOf(const SweepVariant& variant);

}  // namespace psgd
