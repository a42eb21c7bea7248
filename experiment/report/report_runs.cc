#include "experiment/report/report_runs.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/first_measure.h"
#include "experiment/config/flat_config.h"
#include "experiment/plan/dense_twin.h"
#include "experiment/plan/sweep_dir.h"
#include "experiment/record/run_files.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 3;           // folders below the report's folder
constexpr size_t kLongestLabel = 80;  // of settings; longer ones leave figures no room in a table

// Sets the run's status and results from its files and the sweep's outcome.
void Conclude(const std::optional<Outcome>& outcome, ReportRun* run) {
  const RunData& data = run->data;
  const std::vector<CurvePoint>* curve = &data.curve;
  std::vector<CurvePoint> counted;
  run->seconds = data.seconds;
  if (outcome && outcome->kind == Outcome::Kind::kStopped) {
    run->status = ReportStatus::kStopped;
    run->detail = outcome->detail;
    // Evaluations after the decision depend on timing, so they do not count.
    for (const CurvePoint& point : data.curve) {
      if (point.epoch <= outcome->epoch + 1e-6) counted.push_back(point);
    }
    curve = &counted;
  } else if (data.summary && data.summary->status == Summary::Status::kFinished) {
    run->status = ReportStatus::kFinished;
  } else if (outcome && outcome->kind == Outcome::Kind::kFailed) {
    run->status = ReportStatus::kFailed;
    run->detail = outcome->detail;
  } else if (data.summary && data.summary->status == Summary::Status::kFailed) {
    run->status = ReportStatus::kFailed;
    run->detail = data.summary->error;
  } else if (data.summary) {
    run->status = ReportStatus::kInterrupted;
    run->detail = data.summary->error;
  } else if (!data.problems.empty()) {
    run->status = ReportStatus::kBroken;
  } else {
    run->status = ReportStatus::kUnfinished;
  }
  if (run->status == ReportStatus::kFinished) {
    run->scores = ScoresOf(data.summary->test_accuracy, data.summary->test_measures);
    run->loss = data.summary->test_loss;
    run->epochs = data.summary->epochs;
    run->seconds = std::max(run->seconds, data.summary->wall_seconds);
  } else if (!curve->empty()) {
    run->scores = curve->back().scores;
    run->loss = curve->back().loss;
    run->epochs = curve->back().epoch;
    run->seconds = curve->back().seconds;
  }
  run->score = ScoreNamed(run->scores, "");
}

// Different runs with the same label and seed come from list entries of the same name. Numbers them
// in the order of the list.
void TellApart(ReportRuns* report) {
  std::map<std::pair<std::string, uint64_t>, int> times;
  std::set<std::string> shared;
  for (ReportRun& run : report->runs) {
    const int number = ++times[{run.label, run.seed}];
    if (number == 1) continue;
    shared.insert(absl::StrCat("\"", run.label, "\""));
    absl::StrAppend(&run.label, " (", number, ")");
    auto way = std::ranges::find_if(run.axes, [](const auto& axis) { return axis.first == "way"; });
    if (way == run.axes.end()) way = run.axes.insert(way, {"way", ""});
    absl::StrAppend(&way->second, way->second.empty() ? "(" : " (", number, ")");
  }
  if (shared.empty()) return;
  report->notes.push_back(absl::StrCat(
      "Different configurations of this sweep are all called ", absl::StrJoin(shared, ", "),
      "; here the second is \"(2)\" and so on, in the order of its list. Give them names of "
      "their own there."));
}

absl::StatusOr<ReportRuns> OfSweep(const SweepDir& dir) {
  PSGD_ASSIGN_OR_RETURN(const SweepPlan plan, dir.ReadPlan());
  ReportRuns report{plan.name, plan.question, {}, plan.shared, {}, {}};
  std::map<std::string, size_t> index;
  for (const PlanEntry& entry : plan.runs) index.emplace(entry.id, index.size());
  for (const PlanEntry& entry : plan.runs) {
    ReportRun run;
    run.id = entry.id;
    run.label = entry.label;
    run.axes = entry.axes;
    run.seed = entry.seed;
    run.twin = entry.twin;
    if (const auto twin = index.find(entry.twin_id); twin != index.end())
      run.twin_of = twin->second;
    std::error_code error;
    const std::optional<Outcome> outcome = dir.ReadOutcome(entry.id);
    if (fs::exists(dir.RunPath(entry.id), error)) {
      run.data = ReadRunData(dir.RunPath(entry.id));
      Conclude(outcome, &run);
    } else if (outcome && outcome->kind == Outcome::Kind::kFailed) {
      run.data.dir = dir.RunPath(entry.id);
      run.status = ReportStatus::kFailed;
      run.detail = outcome->detail;
    }
    report.runs.push_back(std::move(run));
  }
  TellApart(&report);
  return report;
}

// The keys that differ between runs, except keys that name a run.
std::vector<std::string> VaryingKeys(
    const std::vector<std::map<std::string, std::string>>& configs) {
  std::map<std::string, std::set<std::string>> values;
  std::map<std::string, size_t> times;
  for (const auto& config : configs) {
    for (const auto& [key, value] : config) {
      values[key].insert(value);
      ++times[key];
    }
  }
  std::vector<std::string> varying;
  for (const auto& [key, different] : values) {
    const bool named = key == "name" || key == "seed";
    if (!named && (different.size() > 1 || times[key] < configs.size())) varying.push_back(key);
  }
  return varying;
}

// What a run computes, without how updates travel and when they are applied.
std::string TaskOf(const FlatConfig& config) {
  std::string task;
  for (const auto& [key, value] : config) {
    if (key != "name" && !IsAboutUpdates(key)) absl::StrAppend(&task, key, "=", value, "\n");
  }
  return task;
}

// Derives axes, labels and twins from the configs.
void Compare(std::vector<ReportRun>* runs) {
  std::vector<std::map<std::string, std::string>> configs;
  std::map<std::string, size_t> twins;
  for (size_t i = 0; i < runs->size(); ++i) {
    const auto& config = (*runs)[i].data.config;
    if (!config) continue;
    const FlatConfig flat = Flatten(*config, /*with_defaults=*/true);
    configs.emplace_back(flat.begin(), flat.end());
    if (!IsDenseSynchronous(*config)) continue;
    (*runs)[i].twin = true;
    twins.emplace(TaskOf(flat), i);
  }
  const std::vector<std::string> varying = VaryingKeys(configs);
  size_t next = 0;
  for (ReportRun& run : *runs) {
    if (!run.data.config) {
      // Without its config the run is comparable to no other.
      run.label = absl::StrCat(run.id, ", config unknown");
      if (run.data.summary) run.seed = run.data.summary->seed;
      continue;
    }
    run.seed = run.data.config->seed();
    const auto& config = configs[next++];
    for (const std::string& key : varying) {
      if (const auto value = config.find(key); value != config.end())
        run.axes.emplace_back(key, value->second);
    }
    run.label = run.axes.empty() ? run.data.config->name() : AxesLabel(run.axes);
    const auto twin = twins.find(TaskOf(Flatten(*run.data.config, /*with_defaults=*/true)));
    if (twin != twins.end()) run.twin_of = twin->second;
  }
}

// If labels are too long for a table, runs are named after their directories. Runs that differ only
// in their seeds take the first run's name.
void ShortenLabels(ReportRuns* report) {
  const auto is_long = [](const ReportRun& run) { return run.label.size() > kLongestLabel; };
  if (std::none_of(report->runs.begin(), report->runs.end(), is_long)) return;
  std::map<AxisValues, std::string> names;
  for (ReportRun& run : report->runs) {
    if (run.axes.empty()) continue;
    const auto [name, is_new] = names.emplace(run.axes, run.id);
    if (is_new) report->legend.emplace_back(run.id, run.label);
    run.label = name->second;
  }
}

absl::StatusOr<ReportRuns> OfFolder(const std::string& folder) {
  const std::vector<std::string> found = FindRunDirs(folder, kDeepest);
  if (found.empty()) {
    return NotFoundError(
        folder,
        " holds no runs: neither a sweep's plan.json nor folders with what a run leaves; check its "
        "spelling");
  }
  ReportRuns report;
  const fs::path whole = fs::absolute(folder).lexically_normal();
  report.title = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  for (const std::string& path : found) {
    ReportRun run;
    run.id = path == folder ? report.title : fs::path(path).lexically_relative(folder).string();
    run.data = ReadRunData(path);
    Conclude(std::nullopt, &run);
    report.runs.push_back(std::move(run));
  }
  Compare(&report.runs);
  ShortenLabels(&report);
  return report;
}

absl::Status TakeMetric(const std::string& name, ReportRuns* report) {
  bool measured = false;
  std::set<std::string> names;
  for (ReportRun& run : report->runs) {
    for (const Score& score : run.scores) names.insert(score.metric->name);
    run.score = ScoreNamed(run.scores, name);
    if (name == kLoss && run.loss) run.score = {MetricOfMeasure(kLoss), *run.loss};
    measured = measured || run.score.metric != nullptr;
    for (CurvePoint& point : run.data.curve) {
      point.score = name == kLoss ? Score{MetricOfMeasure(kLoss), point.loss}
                                  : ScoreNamed(point.scores, name);
    }
  }
  if (measured) return absl::OkStatus();
  return InvalidArgumentError("no run has measured ", name, " on its test set; compare by loss",
                              names.empty() ? "" : ", ", absl::StrJoin(names, ", "));
}

// The metric of most runs is the report's. Runs with another keep no score.
void ChooseMetric(ReportRuns* report) {
  std::map<std::string, std::pair<size_t, const Metric*>> counts;
  for (const ReportRun& run : report->runs) {
    if (run.score.metric == nullptr) continue;
    auto& [count, metric] = counts[run.score.metric->name];
    metric = run.score.metric;
    ++count;
  }
  if (counts.empty()) return;
  const auto most = std::ranges::max_element(
      counts, [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
  report->metric = *most->second.second;
  if (counts.size() == 1) return;
  for (ReportRun& run : report->runs) {
    if (run.score.metric != most->second.second) run.score = {};
  }
  report->notes.push_back(absl::StrCat("Some runs have other measures than ", report->metric.name,
                                       ", by which runs are compared here; they have none of it."));
}

// What runs' summaries say of their ends.
void NoteEnds(ReportRuns* report) {
  std::set<std::pair<std::string, std::string>> noted;  // of a configuration once
  for (const ReportRun& run : report->runs) {
    if (!run.data.summary) continue;
    const std::string name = absl::StrCat(run.label, ", seed ", run.seed);
    const std::string &early = run.data.summary->stopped_early, &note = run.data.summary->note;
    if (!early.empty()) report->notes.push_back(absl::StrCat(name, ", ended early: ", early, "."));
    if (!note.empty() && noted.emplace(run.label, note).second)
      report->notes.push_back(absl::StrCat(name, ": ", note, "."));
  }
}

absl::StatusOr<ReportRuns> OfSweepOrFolder(const std::string& dir) {
  const SweepDir sweep(dir);
  std::error_code error;
  if (!fs::exists(sweep.PlanFile(), error)) return OfFolder(dir);
  auto report = OfSweep(sweep);
  if (report.ok()) return report;
  // The runs can still be reported without the plan.
  const std::string note(report.status().message());
  report = OfFolder(dir);
  if (report.ok()) report->notes.push_back(note);
  return report;
}

}  // namespace

const char* NameOf(ReportStatus status) {
  constexpr const char* kNames[] = {"finished",   "stopped early", "failed", "interrupted",
                                    "unfinished", "waiting",       "broken"};  // as in the enum
  return kNames[static_cast<size_t>(status)];
}

absl::StatusOr<ReportRuns> ReadReportRuns(const std::string& dir, const std::string& metric) {
  PSGD_ASSIGN_OR_RETURN(ReportRuns report, OfSweepOrFolder(dir));
  if (!metric.empty()) PSGD_RETURN_IF_ERROR(TakeMetric(metric, &report));
  ChooseMetric(&report);
  NoteEnds(&report);
  return report;
}

}  // namespace psgd
