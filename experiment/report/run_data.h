// What a report reads from a run directory. Missing or damaged files are reported, and the other
// files are used.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "experiment/record/metric.h"
#include "experiment/record/records.h"
#include "experiment/record/summary.h"
#include "proto/config.pb.h"

namespace psgd {

// An evaluation on the test set.
struct CurvePoint {
  double seconds = 0;  // since the run began, without the time when it was stopped
  double epoch = 0;
  Score score;
  double loss = 0;
  double bytes_pushed = 0;  // up to this evaluation
  double bytes_pulled = 0;
  double samples = 0;              // trained on, up to this evaluation
  std::vector<Score> scores = {};  // all that were measured; `score` is one of them
};

// The time of the workers by phase, in seconds summed over workers.
using PhaseSeconds = std::vector<std::pair<std::string, double>>;

struct RunData {
  std::string dir;
  std::vector<std::string> problems;  // what could not be read, for people
  std::optional<Config> config;
  std::optional<Summary> summary;
  std::vector<CurvePoint> curve;         // sorted by epoch
  Record progress;                       // the last one; null: none
  double seconds = 0;                    // at the last record, counted as in CurvePoint
  std::vector<uint64_t> pull_staleness;  // how often each staleness occurred
};

RunData ReadRunData(const std::string& dir);

// In the order of a step: data, compute, encode, ... Empty: the run recorded no phases.
PhaseSeconds PhasesOf(const RunData& run);

// Reads metrics.jsonl while it grows, each line once. Not thread-safe.
class MetricsFollower {
 public:
  explicit MetricsFollower(std::string path) : path_(std::move(path)) {}

  // Reads what was added since the last call.
  void Look();

  const std::vector<CurvePoint>& curve() const { return curve_; }
  // The names of all that evaluations measured, also of what is no metric.
  const std::set<std::string>& measured() const { return measured_; }
  // The last progress record that was parsed; null: none.
  const Record& progress() const { return progress_; }
  const std::vector<uint64_t>& pull_staleness() const { return pull_staleness_; }
  double seconds() const { return before_ + seconds_; }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  void Line(const std::string& line);
  void ParseProgress();
  void AddEvaluation(const Record& record);
  // The run went on from there: later evaluations are of training that was given up.
  void GiveUpAfter(double epoch);
  void Place();

  const std::string path_;
  int64_t offset_ = 0;
  size_t number_ = 0;          // of the current line
  double before_ = 0;          // seconds of earlier parts: a resumed run counts from 0 again
  double seconds_ = 0;         // of the current part, at the last record
  std::string progress_line_;  // parsed only if needed, because most lines are not
  Record progress_;
  std::vector<CurvePoint> curve_;
  std::set<std::string> measured_;
  size_t placed_ = 0;  // points of the curve whose bytes and samples are final
  std::vector<uint64_t> pull_staleness_;
  std::vector<std::string> problems_;
  size_t damaged_lines_ = 0;
};

}  // namespace psgd
