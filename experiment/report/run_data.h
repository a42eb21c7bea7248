// What a run directory tells for a report. Files that are missing or damaged are said to be, and
// what the others hold is used.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiment/record/records.h"
#include "experiment/record/summary.h"
#include "proto/config.pb.h"

namespace psgd {

// An evaluation on the test set.
struct CurvePoint {
  double seconds = 0;  // since the run began, without the time in which it was stopped
  double epoch = 0;
  double accuracy = 0;
  double loss = 0;
  double bytes_pushed = 0;  // until then
  double bytes_pulled = 0;
};

// Where the time of its workers went, in seconds summed over them.
using PhaseSeconds = std::vector<std::pair<std::string, double>>;

struct RunData {
  std::string dir;
  std::vector<std::string> problems;  // what could not be read, for people
  std::optional<Config> config;
  std::optional<Summary> summary;
  std::vector<CurvePoint> curve;         // by epoch
  Record progress;                       // the last; null: there is none
  double seconds = 0;                    // as CurvePoint has them, at the last record
  std::vector<uint64_t> pull_staleness;  // how often each was seen
};

RunData ReadRunData(const std::string& dir);

// In the order of a step: data, encode, ... Empty: the run recorded none.
PhaseSeconds PhasesOf(const RunData& run);

// Reads metrics.jsonl as it grows, each line once. Not thread-safe.
class MetricsFollower {
 public:
  explicit MetricsFollower(std::string path) : path_(std::move(path)) {}

  // What came since the last call.
  void Look();

  const std::vector<CurvePoint>& curve() const { return curve_; }
  // The last that was parsed; null: none.
  const Record& progress() const { return progress_; }
  const std::vector<uint64_t>& pull_staleness() const { return pull_staleness_; }
  double seconds() const { return before_ + seconds_; }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  void Line(const std::string& line);
  void ParseProgress();
  void AddEvaluation(const Record& record);

  const std::string path_;
  int64_t offset_ = 0;
  size_t number_ = 0;          // of the line
  double before_ = 0;          // seconds of the parts before this one: a resumed run counts from 0
  double seconds_ = 0;         // of this part, at the last record
  std::string progress_line_;  // not parsed yet: most are never looked at
  Record progress_;
  std::vector<CurvePoint> curve_;
  std::vector<uint64_t> pull_staleness_;
  std::vector<std::string> problems_;
  size_t damaged_lines_ = 0;
};

}  // namespace psgd
