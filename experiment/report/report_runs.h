// The runs of a report: the runs of a sweep, or all runs in a folder.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "experiment/plan/expand.h"
#include "experiment/report/run_data.h"

namespace psgd {

enum class ReportStatus {
  kFinished,
  kStopped,
  kFailed,
  kInterrupted,
  kUnfinished,
  kWaiting,
  kBroken
};
const char* NameOf(ReportStatus status);

struct ReportRun {
  std::string id;     // the id in the sweep, or the directory's path below the folder
  std::string label;  // shared by runs that differ only in their seeds
  AxisValues axes;
  uint64_t seed = 0;
  bool twin = false;
  std::optional<size_t> twin_of;  // index of the dense synchronous run to compare with
  ReportStatus status = ReportStatus::kWaiting;
  std::string detail;  // why the run failed or was stopped
  RunData data;

  // Results of the last evaluation that counts; nothing: none.
  std::vector<Score> scores;  // all that were measured
  Score score;                // the one to compare by
  std::optional<double> loss;
  double epochs = 0;
  double seconds = 0;
};

struct ReportRuns {
  std::string title;
  std::string question;
  std::vector<ReportRun> runs;
  std::vector<std::string> notes;
  // What the labels mean, if they are names of runs. Empty: labels need no explanation.
  std::vector<std::pair<std::string, std::string>> legend;
  Metric metric;  // of the scores; runs with another have none
};

// `metric`: the name of the one to compare by; empty: what says how good most runs' models are.
// NOT_FOUND: the folder holds neither a sweep nor run directories.
absl::StatusOr<ReportRuns> ReadReportRuns(const std::string& dir, const std::string& metric = "");

}  // namespace psgd
