// Runs that differ in their seeds alone, taken together. Repeats of a seed are one: their mean.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiment/report/report_runs.h"

namespace psgd {

// Of numbers that may be none.
struct Statistic {
  size_t count = 0;
  double mean = 0;
  double spread = 0;  // standard deviation of a sample; 0 for one number
  double low = 0;
  double high = 0;

  static Statistic Of(const std::vector<double>& values);
};

struct ReportGroup {
  std::string label;
  AxisValues axes;
  bool twin = false;
  std::vector<size_t> runs;  // indices, in order of seeds
  size_t done = 0;           // of those, finished or stopped early
  size_t seeds = 0;          // of the done ones; fewer than they: some are repeats
  Statistic accuracy;        // over these seeds, as all that follows
  Statistic loss;
  Statistic against_twin;  // accuracy less that of the twin with the same seed
  Statistic epochs;
  Statistic seconds;
  Statistic samples_per_second;
  Statistic bytes_pushed;
  Statistic bytes_pulled;
  Statistic push_ratio;  // fp32 would have cost so many times more
  Statistic pull_ratio;
  Statistic staleness;  // mean of a run's pulls
  double staleness_max = 0;
};

// Those of one label and the same axes, in the order in which they first come.
std::vector<ReportGroup> GroupRuns(const ReportRuns& report);

// A run whose results count.
bool IsDone(const ReportRun& run);

// Whose mean stands in for each of its seeds.
Statistic OverSeeds(const std::vector<std::pair<uint64_t, double>>& values);

// "9 finished", or "1 failed, 4 finished (repeats of 2 seeds)".
std::string StatusText(const ReportRuns& report, const ReportGroup& group);

}  // namespace psgd
