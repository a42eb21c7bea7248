#include "experiment/report/run_data.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "experiment/config/config_yaml.h"
#include "experiment/record/run_dir.h"
#include "experiment/record/run_files.h"

namespace psgd {
namespace {

constexpr char kProgress[] = "{\"kind\":\"progress\"";
constexpr double kSameEpoch = 1e-9;

std::vector<uint64_t> CountsIn(const Record& record, const char* key) {
  std::vector<uint64_t> counts;
  const auto found = record.find(key);
  if (found == record.end() || !found->is_array()) return counts;
  for (const Record& count : *found) {
    counts.push_back(count.is_number_unsigned() ? count.get<uint64_t>() : 0);
  }
  return counts;
}

}  // namespace

void MetricsFollower::Look() {
  if (!CheckRegularFile(path_).ok()) return;
  std::ifstream file(path_, std::ios::binary);
  if (!file) return;
  file.seekg(offset_);
  std::string line;
  while (std::getline(file, line)) {
    if (file.eof()) break;  // a line that is still being written
    offset_ += static_cast<int64_t>(line.size()) + 1;
    ++number_;
    Line(line);
  }
  ParseProgress();
}

void MetricsFollower::Line(const std::string& line) {
  const bool is_progress = absl::StartsWith(line, kProgress);
  if (const double seconds = SecondsIn(line); seconds >= 0) {
    if (seconds < seconds_) before_ += seconds_;
    seconds_ = seconds;
  }
  if (is_progress) {
    progress_line_ = line;
    if (placed_ < curve_.size()) ParseProgress();
    return;
  }
  const Record record = Record::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!record.is_object()) {
    if (damaged_lines_++ == 0) {
      problems_.push_back(
          absl::StrCat("metrics.jsonl, line ", number_, " is damaged; it is left out"));
    }
    return;
  }
  const auto kind = record.find("kind");
  if (kind == record.end() || !kind->is_string()) return;
  if (*kind == "evaluation") AddEvaluation(record);
  if (*kind == "resumed") GiveUpAfter(NumberIn(record, "epoch"));
  if (*kind == "staleness") pull_staleness_ = CountsIn(record, "pulls");
}

void MetricsFollower::ParseProgress() {
  if (progress_line_.empty()) return;
  Record record = Record::parse(progress_line_, nullptr, /*allow_exceptions=*/false);
  if (record.is_object()) progress_ = std::move(record);
  progress_line_.clear();
  Place();
}

// Evaluations come between progress records, which are written once a second. The first record at
// or after an evaluation's epoch tells its bytes and samples, on a straight line from the
// evaluation before.
void MetricsFollower::Place() {
  if (!progress_.is_object()) return;
  const double epoch = NumberIn(progress_, "epoch");
  for (; placed_ < curve_.size(); ++placed_) {
    CurvePoint& point = curve_[placed_];
    const CurvePoint before = placed_ > 0 ? curve_[placed_ - 1] : CurvePoint();
    if (epoch < point.epoch - kSameEpoch) return;
    const double way = epoch - before.epoch;
    const double share = way > kSameEpoch ? std::min(1.0, (point.epoch - before.epoch) / way) : 1;
    const auto at = [&](const char* key, double from) {
      return from + share * (NumberIn(progress_, key) - from);
    };
    point.bytes_pushed = at("bytes_pushed", before.bytes_pushed);
    point.bytes_pulled = at("bytes_pulled", before.bytes_pulled);
    point.samples = at("samples", before.samples);
  }
}

void MetricsFollower::AddEvaluation(const Record& record) {
  ParseProgress();
  CurvePoint point{.seconds = seconds(),
                   .epoch = NumberIn(record, "epoch"),
                   .loss = NumberIn(record, "loss"),
                   .scores = ScoresIn(record)};
  point.score = ScoreNamed(point.scores, "");
  if (point.loss != 0) measured_.insert("loss");
  for (const Score& score : point.scores) measured_.insert(score.metric->name);
  if (const auto found = record.find("measures"); found != record.end() && found->is_object()) {
    for (const auto& [name, value] : found->items()) measured_.insert(name);
  }
  if (progress_.is_object()) {  // until a later record tells more
    point.bytes_pushed = NumberIn(progress_, "bytes_pushed");
    point.bytes_pulled = NumberIn(progress_, "bytes_pulled");
    point.samples = NumberIn(progress_, "samples");
  }
  // A run that resumed from a checkpoint evaluates some epochs again.
  while (!curve_.empty() && curve_.back().epoch >= point.epoch - kSameEpoch) curve_.pop_back();
  placed_ = std::min(placed_, curve_.size());
  curve_.push_back(point);
  Place();
}

void MetricsFollower::GiveUpAfter(double epoch) {
  while (!curve_.empty() && curve_.back().epoch > epoch + kSameEpoch) curve_.pop_back();
  placed_ = std::min(placed_, curve_.size());
}

RunData ReadRunData(const std::string& dir) {
  RunData run;
  run.dir = dir;
  const RunDir files(dir);
  std::error_code error;
  const auto readable = [&](const std::string& path, const char* name) {
    const absl::Status regular = CheckRegularFile(path);
    if (!regular.ok()) {
      run.problems.push_back(absl::IsNotFound(regular) ? absl::StrCat(name, " is missing")
                                                       : std::string(regular.message()));
    }
    return regular.ok();
  };
  if (readable(files.ConfigFile(), "config.yaml")) {
    auto config = LoadConfig(files.ConfigFile());
    if (config.ok()) {
      run.config = ResolveDefaults(*std::move(config));
    } else {
      run.problems.emplace_back(config.status().message());
    }
  }
  // A running run has no summary yet, which is not damage.
  if (std::filesystem::exists(files.SummaryFile(), error)) {
    auto summary = ReadSummary(files.SummaryFile());
    if (summary.ok()) {
      run.summary = *std::move(summary);
    } else {
      run.problems.emplace_back(summary.status().message());
    }
  }
  if (readable(files.MetricsFile(), "metrics.jsonl")) {
    MetricsFollower metrics(files.MetricsFile());
    metrics.Look();
    run.curve = metrics.curve();
    run.progress = metrics.progress();
    run.pull_staleness = metrics.pull_staleness();
    run.seconds = metrics.seconds();
    run.problems.insert(run.problems.end(), metrics.problems().begin(), metrics.problems().end());
  }
  return run;
}

PhaseSeconds PhasesOf(const RunData& run) {
  if (!run.progress.is_object()) return {};
  PhaseSeconds phases;
  double sum = 0;
  for (const char* name : {"data", "compute", "encode", "wait", "wire", "apply"}) {
    const std::string key = absl::StrCat("seconds_", name);
    if (!run.progress.contains(key)) continue;  // earlier versions did not record phases
    const double seconds = NumberIn(run.progress, key.c_str());
    phases.emplace_back(name, seconds);
    sum += seconds;
  }
  return sum > 0 ? phases : PhaseSeconds();
}

}  // namespace psgd
