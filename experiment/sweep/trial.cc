#include "experiment/sweep/trial.h"

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/files.h"
#include "experiment/config/flat_config.h"
#include "experiment/plan/sweep_dir.h"
#include "experiment/record/run_dir.h"
#include "experiment/report/run_data.h"
#include "experiment/sweep/local_places.h"
#include "experiment/sweep/run_command.h"
#include "experiment/sweep/trial_speed.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostKinds = 6;
constexpr Duration kLook = std::chrono::milliseconds(50);
constexpr Duration kDeadline = std::chrono::seconds(20);
constexpr double kSpan = 2;  // seconds of training per worker that are enough to tell the speed
constexpr Duration kPause = std::chrono::milliseconds(200);
constexpr Duration kGoodbye = std::chrono::seconds(10);

std::optional<TrialMark> Last(const MetricsFollower& metrics) {
  const Record& progress = metrics.progress();
  if (!progress.is_object()) return std::nullopt;
  const TrialMark mark = TrialMark::Of(progress);
  if (mark.samples <= 0 || mark.training <= 0) return std::nullopt;
  return mark;
}

// Follows the run until its speed is known, it ends, or the deadline passes.
std::optional<TrialSpeed> Follow(ChildProcess& child, MetricsFollower& metrics,
                                 const TrialPlace& place, const std::atomic<int>* stops) {
  std::optional<TrialMark> first, last;
  for (const Time start = SteadyNow(); child.Running() && SteadyNow() - start < kDeadline;) {
    if (stops != nullptr && stops->load() > 0) return std::nullopt;
    std::this_thread::sleep_for(kLook);
    metrics.Look();
    last = Last(metrics);
    if (!first) first = last;
    if (last && last->steps - first->steps >= kLeastTrialSteps &&
        last->training - first->training >= kSpan * place.workers) {
      return SpeedBetween(*first, *last, place);
    }
  }
  if (!first) return std::nullopt;
  // If steps are this slow, the first steps count too.
  if (last->steps - first->steps >= kLeastTrialSteps) return SpeedBetween(*first, *last, place);
  TrialMark begun;
  begun.seconds = std::max(0.0, first->seconds - first->training / place.workers);
  return SpeedBetween(begun, *last, place);
}

// The speed of a run that finished during the trial.
TrialSpeed SpeedOfAll(double samples, double took, const MetricsFollower& metrics,
                      const TrialPlace& place) {
  const std::optional<TrialMark> last = Last(metrics);
  if (!last || last->training / place.workers >= took)
    return {.samples_per_second = samples / took};
  TrialSpeed speed = SpeedBetween({}, *last, place);
  speed.before = took - samples / speed.samples_per_second;
  return speed;
}

absl::StatusOr<TrialSpeed> TryRun(const PlannedRun& run, double samples, const Share& share,
                                  const std::atomic<int>* stops) {
  std::string folder = fs::temp_directory_path() / "psgd-trial-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return FileError("make the folder", folder, errno);
  const absl::Cleanup remove = [&] {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  };
  const SweepDir dir(folder);
  PSGD_RETURN_IF_ERROR(dir.Make());
  PSGD_ASSIGN_OR_RETURN(const RunCommand command,
                        LocalPlaces(dir, {share}).Command(run, /*slot=*/0, /*resume=*/false));
  ChildOptions options{.name = "ps-run", .argv = command.argv, .stderr_file = dir.LogFile(run.id)};
  options.cores = command.cores;
  PSGD_ASSIGN_OR_RETURN(const auto child, ChildProcess::Start(std::move(options)));
  MetricsFollower metrics(RunDir(dir.RunPath(run.id)).MetricsFile());
  const int cores = static_cast<int>(share.cores.size());
  const TrialPlace place{run.config.cluster().workers(), ThreadsOf(run, cores), cores,
                         !share.gpus.empty()};
  const Time start = SteadyNow();
  const std::optional<TrialSpeed> speed = Follow(*child, metrics, place, stops);
  const double took = Seconds(SteadyNow() - start);
  const auto failed = [&](const std::string& why) {
    return UnavailableError(run.LabelWithSeed(), ": ", why);
  };
  if (!child->Running()) {
    metrics.Look();
    if (child->exit_code() == 0) return SpeedOfAll(samples, took, metrics, place);
    const std::string words = TailOfFile(dir.LogFile(run.id), 1);
    return failed(words.empty() ? absl::StrCat("ps-run ", child->HowItEnded()) : words);
  }
  // A second SIGINT ends ps-run at once. The pause keeps both signals separate.
  child->Signal(SIGINT);
  if (!child->WaitEnded(kPause)) child->Signal(SIGINT);
  if (!child->WaitEnded(kGoodbye)) child->Kill();
  if (speed) return *speed;
  // The log does not help here: ps-run was only stopped.
  return failed(absl::StrCat("no step was done within ", Seconds(kDeadline), " s"));
}

// Runs of one kind take about the same time per sample, except for how their updates travel.
std::string KindOf(const PlannedRun& run) {
  std::string kind = absl::StrCat(TaskKey(run.config), run.config.cluster().workers());
  for (const auto& [key, value] : Flatten(run.launch, /*with_defaults=*/true)) {
    absl::StrAppend(&kind, "\n", key, "=", value);
  }
  return kind;
}

}  // namespace

void EstimateByTrial(const std::vector<PlannedRun>& runs, const Share& share,
                     const std::atomic<int>* stops, SweepEstimate* estimate) {
  // Prefers the sweep's own runs to twins, which send the most bytes.
  std::map<std::string, size_t> kinds;
  for (const bool twins : {false, true}) {
    for (size_t i = 0; i < runs.size(); ++i) {
      if (runs[i].twin == twins && estimate->left[i] > 0) kinds.emplace(KindOf(runs[i]), i);
    }
  }
  std::map<std::string, TrialSpeed> speeds;
  double seconds = 0, at_best = 0, samples = 0;  // of the runs that were tried
  bool busy = false;
  for (const auto& [kind, i] : kinds) {
    if (speeds.size() == kMostKinds) break;
    const absl::StatusOr<TrialSpeed> speed = TryRun(runs[i], estimate->left[i], share, stops);
    if (stops != nullptr && stops->load() > 0) return;
    if (!speed.ok()) {
      estimate->trouble = std::string(speed.status().message());
      continue;
    }
    speeds.emplace(kind, *speed);
    seconds += speed->SecondsFor(estimate->left[i]);
    at_best += speed->SecondsAtBest(estimate->left[i]);
    busy = busy || speed->at_best > 0;
    samples += estimate->left[i];
  }
  if (speeds.empty()) return;
  estimate->tried = speeds.size();
  estimate->kinds = kinds.size();
  double all = 0, all_at_best = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const double left = estimate->left[i];
    if (left == 0) continue;
    const auto found = speeds.find(KindOf(runs[i]));
    all += found != speeds.end() ? found->second.SecondsFor(left) : left * seconds / samples;
    all_at_best +=
        found != speeds.end() ? found->second.SecondsAtBest(left) : left * at_best / samples;
  }
  estimate->seconds = all;
  if (busy) estimate->seconds_at_best = all_at_best;
}

}  // namespace psgd
