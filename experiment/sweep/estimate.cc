#include "experiment/sweep/estimate.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/units.h"
#include "compression/policy.h"
#include "experiment/config/flat_config.h"
#include "experiment/launch/preflight.h"
#include "experiment/record/readable.h"
#include "experiment/report/groups.h"

namespace psgd {
std::string TaskKey(const Config& config) {
  std::string key;
  for (const auto& [name, value] : Flatten(config, /*with_defaults=*/false)) {
    if (absl::StartsWith(name, "data") || absl::StartsWith(name, "model"))
      absl::StrAppend(&key, name, "=", value, "\n");
  }
  return key;
}

absl::StatusOr<SweepEstimate> EstimateSweep(const std::vector<PlannedRun>& runs,
                                            const std::string& dir) {
  struct Did {
    double seconds = 0, epochs = 0;
  };
  std::map<std::string, Did> done;
  if (const auto report = ReadReportRuns(dir); report.ok()) {
    for (const ReportRun& run : report->runs) {
      if (IsDone(run)) done[run.id] = {run.seconds, run.epochs};
    }
  }
  SweepEstimate estimate;
  estimate.runs = runs.size();
  std::map<std::string, TrainingSize> tasks;
  double done_samples = 0, done_seconds = 0;
  for (const PlannedRun& run : runs) {
    if (!run.launch.command().empty()) {
      PSGD_RETURN_IF_ERROR(Annotate(CheckBringsModel(run.config), run.label));
      (done.count(run.id) > 0 ? estimate.done : estimate.untold) += 1;
      estimate.left.push_back(0);
      continue;
    }
    const std::string key = TaskKey(run.config);
    if (tasks.count(key) == 0) {
      const auto size = CheckTrainable(run.config, /*begins=*/done.empty());
      if (!size.ok()) return Annotate(size.status(), run.label);
      tasks[key] = *size;
    }
    const TrainingSize& task = tasks[key];
    const double batch = run.config.data().batch();
    double samples = task.samples * run.config.train().epochs();
    if (const auto most = run.config.train().max_steps(); most > 0) {
      samples =
          std::min(samples, static_cast<double>(most) * batch * run.config.cluster().workers());
    }
    if (const auto found = done.find(run.id); found != done.end()) {
      ++estimate.done;
      // A run that was stopped early trained on fewer samples.
      done_samples += std::min(samples, task.samples * found->second.epochs);
      done_seconds += found->second.seconds;
      estimate.left.push_back(0);
      continue;
    }
    if (const std::string left_out = LeftOutText(run.config.compression(), *task.model);
        !left_out.empty()) {
      std::string note = absl::StrCat(run.label, ": ", left_out);
      const bool told = std::ranges::find(estimate.notes, note) != estimate.notes.end();
      if (!told) estimate.notes.push_back(std::move(note));
    }
    estimate.left.push_back(samples);
    estimate.samples += samples;
    estimate.steps += samples / batch;
    estimate.dense_bytes += 2 * samples / batch * task.weights * sizeof(float);
  }
  if (done_samples > 0 && estimate.untold == 0)
    estimate.seconds = estimate.samples * done_seconds / done_samples;
  return estimate;
}

std::string EstimateText(const SweepEstimate& estimate, int parallel) {
  std::string text = absl::StrCat(estimate.runs, estimate.runs == 1 ? " run" : " runs");
  if (estimate.done > 0) absl::StrAppend(&text, ", ", estimate.done, " of them done");
  if (estimate.untold > 0) {
    return absl::StrCat(text, ". The time is not known: ", estimate.untold,
                        " of them run launch.command, and only it knows how much it trains.\n");
  }
  absl::StrAppend(&text, ". To do: ", ReadableCount(estimate.samples), " samples in ",
                  ReadableCount(estimate.steps), " steps; in fp32 they would move ",
                  HumanBytes(estimate.dense_bytes), ".\n");
  if (!estimate.trouble.empty())
    absl::StrAppend(&text, "A try here failed: ", estimate.trouble, "\n");
  if (estimate.samples == 0) return text;
  if (estimate.seconds < 0) {
    return text +
           "How long that takes can be told once a run has finished; ps-sweep then shows it.\n";
  }
  const std::string at_a_time =
      absl::StrCat(" with ", parallel, parallel == 1 ? " run" : " runs", " at a time",
                   estimate.stops_early ? ", at most, for asha stops some" : "");
  const std::string time = ReadableTime(estimate.seconds / parallel);
  if (estimate.tried == 0)
    return absl::StrCat(text, "At the speed of those that are done: ", time, at_a_time, ".\n");
  if (estimate.seconds_at_best >= 0) {
    absl::StrAppend(&text, "At best ", ReadableTime(estimate.seconds_at_best / parallel), ", and ",
                    time, " as busy as this machine is now with something else,");
  } else {
    absl::StrAppend(&text, "About ", time);
  }
  return absl::StrCat(text, at_a_time, ", as ", estimate.tried, " of ", estimate.kinds,
                      estimate.kinds == 1 ? " kind" : " kinds",
                      " of runs went here for a moment; evaluations come on top.\n");
}

}  // namespace psgd
