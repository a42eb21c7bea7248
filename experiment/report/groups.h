// Groups of runs that differ only in their seeds. Repeats of a seed count once, with their mean.
#pragma once

#include <string>
#include <vector>

#include "experiment/report/report_runs.h"

namespace psgd {

// A statistic of numbers, of which there may be none.
struct Statistic {
  size_t count = 0;
  double mean = 0;
  double spread = 0;  // sample standard deviation; 0 for one number
  double low = 0;
  double high = 0;

  static Statistic Of(const std::vector<double>& values);
};

struct ReportGroup {
  std::string label;
  AxisValues axes;
  bool twin = false;
  std::vector<size_t> runs;  // indices, ordered by seed
  size_t done = 0;           // number of these runs that finished or were stopped early
  size_t seeds = 0;          // distinct seeds of the done runs; less than `done` after repeats
  Statistic score;           // over seeds, as all statistics below
  Statistic loss;
  Statistic against_twin;  // score minus the score of the twin with the same seed
  Statistic epochs;
  Statistic seconds;
  Statistic samples_per_second;
  Statistic bytes_pushed;
  Statistic bytes_pulled;
  Statistic push_ratio;  // how many times more fp32 would have cost
  Statistic pull_ratio;
  Statistic staleness;  // mean over a run's pulls
  double staleness_max = 0;
};

// Groups runs with one label and the same axes, in the order of their first run.
std::vector<ReportGroup> GroupRuns(const ReportRuns& report);

// True if the run's results count.
bool IsDone(const ReportRun& run);

// Averages the values of each seed, then computes the statistic over the seeds.
Statistic OverSeeds(const std::vector<std::pair<uint64_t, double>>& values);

// "9 finished", or "1 failed, 4 finished (repeats of 2 seeds)".
std::string StatusText(const ReportRuns& report, const ReportGroup& group);

}  // namespace psgd
