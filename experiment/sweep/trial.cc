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
#include "experiment/flat_config.h"
#include "experiment/report/run_data.h"
#include "experiment/run_dir.h"
#include "experiment/sweep/local_places.h"
#include "experiment/sweep/sweep_dir.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostKinds = 6;
constexpr Duration kLook = std::chrono::milliseconds(50);
constexpr Duration kDeadline = std::chrono::seconds(20);
constexpr double kSpan = 2;  // seconds of training, between two records, that tell the speed
constexpr Duration kPause = std::chrono::milliseconds(200);
constexpr Duration kGoodbye = std::chrono::seconds(10);

struct Speed {
  double before = 0;  // seconds, until it trains
  double samples_per_second = 0;
  double SecondsFor(double samples) const { return before + samples / samples_per_second; }
};

// Of what a run has recorded: how far it was, and when.
struct Mark {
  double seconds = 0;
  double samples = 0;
};

std::optional<Mark> Last(const MetricsFollower& metrics) {
  const Record& progress = metrics.progress();
  if (!progress.is_object() || NumberIn(progress, "samples") <= 0) return std::nullopt;
  return Mark{NumberIn(progress, "seconds"), NumberIn(progress, "samples")};
}

Speed Between(const Mark& first, const Mark& last) {
  Speed speed;
  speed.samples_per_second = (last.samples - first.samples) / (last.seconds - first.seconds);
  speed.before = std::max(0.0, first.seconds - first.samples / speed.samples_per_second);
  return speed;
}

// Until it has told enough, has ended, or takes too long.
std::optional<Speed> Follow(ChildProcess& child, MetricsFollower& metrics, const std::atomic<int>* stops) {
  std::optional<Mark> first, last;
  for (const Time start = SteadyNow(); child.Running() && SteadyNow() - start < kDeadline;) {
    if (stops != nullptr && stops->load() > 0) return std::nullopt;
    std::this_thread::sleep_for(kLook);
    metrics.Look();
    last = Last(metrics);
    if (!first) first = last;
    if (last && last->seconds - first->seconds >= kSpan && last->samples > first->samples) {
      return Between(*first, *last);
    }
  }
  // Steps that take so long that there is but one record tell something, too.
  if (!first) return std::nullopt;
  return last->samples > first->samples ? Between(*first, *last) : Between({}, *first);
}

absl::StatusOr<Speed> TryRun(const PlannedRun& run, double samples, const Share& share,
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
  const Time start = SteadyNow();
  const std::optional<Speed> speed = Follow(*child, metrics, stops);
  const double took = Seconds(SteadyNow() - start);
  if (!child->Running() && child->exit_code() == 0) return Speed{0, samples / took};  // all of it
  // The second time it ends at once; two without a pause may arrive as one.
  child->Signal(SIGINT);
  if (!child->WaitEnded(kPause)) child->Signal(SIGINT);
  if (!child->WaitEnded(kGoodbye)) child->Kill();
  if (speed) return *speed;
  const std::string words = TailOfFile(dir.LogFile(run.id), 1);
  return absl::UnavailableError(
      absl::StrCat(run.LabelWithSeed(), ": ", words.empty() ? "no step was done in time" : words));
}

// Runs of a kind take about the same for a sample, but for how their updates travel.
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
  // What the sweep is about rather than a twin, which sends the most bytes.
  std::map<std::string, size_t> kinds;
  for (const bool twins : {false, true}) {
    for (size_t i = 0; i < runs.size(); ++i) {
      if (runs[i].twin == twins && estimate->left[i] > 0) kinds.emplace(KindOf(runs[i]), i);
    }
  }
  std::map<std::string, Speed> speeds;
  double seconds = 0, samples = 0;  // of those that were tried
  for (const auto& [kind, i] : kinds) {
    if (speeds.size() == kMostKinds) break;
    const absl::StatusOr<Speed> speed = TryRun(runs[i], estimate->left[i], share, stops);
    if (stops != nullptr && stops->load() > 0) return;
    if (!speed.ok()) {
      estimate->trouble = std::string(speed.status().message());
      continue;
    }
    speeds.emplace(kind, *speed);
    seconds += speed->SecondsFor(estimate->left[i]);
    samples += estimate->left[i];
  }
  if (speeds.empty()) return;
  estimate->tried = speeds.size();
  estimate->kinds = kinds.size();
  estimate->seconds = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (estimate->left[i] == 0) continue;
    const auto found = speeds.find(KindOf(runs[i]));
    estimate->seconds += found != speeds.end() ? found->second.SecondsFor(estimate->left[i])
                                               : estimate->left[i] * seconds / samples;
  }
}

}  // namespace psgd
