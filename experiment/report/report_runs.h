// The runs of a report: those of a sweep, or any that a folder holds.
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
  std::string id;     // of the sweep, or the directory's path below the folder
  std::string label;  // those that differ in their seeds alone share it
  AxisValues axes;
  uint64_t seed = 0;
  bool twin = false;
  std::optional<size_t> twin_of;  // index of the dense synchronous run that it is compared with
  ReportStatus status = ReportStatus::kWaiting;
  std::string detail;  // how it failed, why it was stopped
  RunData data;

  // After the last evaluation that counts; nothing: there was none.
  std::optional<double> accuracy;
  std::optional<double> loss;
  double epochs = 0;
  double seconds = 0;
};

struct ReportRuns {
  std::string title;
  std::string question;
  std::vector<ReportRun> runs;
  std::vector<std::string> notes;
  // What labels stand for, where they are the names of runs; empty: they speak for themselves.
  std::vector<std::pair<std::string, std::string>> legend;
};

// NOT_FOUND: the folder holds neither a sweep nor run directories.
absl::StatusOr<ReportRuns> ReadReportRuns(const std::string& dir);

}  // namespace psgd
