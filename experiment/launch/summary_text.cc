#include "experiment/launch/summary_text.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/first_measure.h"
#include "common/shell_line.h"
#include "common/units.h"
#include "data/new_samples.h"
#include "experiment/config/config_yaml.h"
#include "experiment/launch/earlier_servers.h"
#include "experiment/launch/resume_advice.h"
#include "experiment/record/readable.h"
#include "experiment/record/run_dir.h"
#include "optimizers/diverged.h"

namespace psgd {
namespace {

std::string Traffic(uint64_t sent, uint64_t dense) {
  const std::string ratio =
      dense == 0 ? "" : ReadableRatio(static_cast<double>(dense), static_cast<double>(sent));
  return absl::StrCat(HumanBytes(static_cast<double>(sent)),
                      " (fp32: ", HumanBytes(static_cast<double>(dense)), ratio.empty() ? "" : ", ",
                      ratio, ")");
}

// Counts the parameters of each codec, such as "topk (2 tensors), fp16 (1 tensor)".
std::string Counted(const std::map<std::string, std::string>& codecs) {
  std::map<std::string, int> counts;
  for (const auto& [parameter, codec] : codecs) ++counts[codec];
  return absl::StrJoin(counts, ", ", [](std::string* out, const auto& count) {
    absl::StrAppend(out, count.first, " (", count.second,
                    count.second == 1 ? " tensor)" : " tensors)");
  });
}

// Lists "compute 61 %, wire 20 %, apply 12 %", the largest first. Shares below half a percent are
// left out.
std::string Shares(const std::map<std::string, double>& seconds) {
  std::vector<std::pair<double, std::string>> shares;
  double total = 0;
  for (const auto& [name, time] : seconds) total += time;
  for (const auto& [name, time] : seconds) {
    if (time >= 0.005 * total && total > 0) shares.emplace_back(time / total, name);
  }
  std::sort(shares.rbegin(), shares.rend());
  return absl::StrJoin(shares, ", ", [](std::string* out, const auto& share) {
    absl::StrAppendFormat(out, "%s %.0f %%", share.second, 100 * share.first);
  });
}

std::string Spread(const StalenessSummary& staleness) {
  return absl::StrFormat("mean %.2f, p99 %d, max %d", staleness.mean, staleness.p99, staleness.max);
}

// The full text was shown before. Keeps the first line, without the words that introduce the
// others.
std::string InOneLine(const std::string& story) {
  std::string line = story.substr(0, story.find('\n'));
  if (line.ends_with(':')) line.resize(std::min(line.rfind("; "), line.size() - 1));
  return line;
}

}  // namespace

std::string SummaryText(const Summary& summary, const std::string& run_dir) {
  std::vector<std::pair<std::string, std::string>> rows;
  rows.emplace_back("status",
                    absl::StrCat(NameOf(summary.status),
                                 SaysDiverged(summary.note) ? ", but training diverged" : ""));
  if (!summary.error.empty()) {
    rows.emplace_back("reason", InOneLine(summary.error));
  }
  if (!summary.stopped_early.empty()) rows.emplace_back("stopped early", summary.stopped_early);
  if (!summary.note.empty()) rows.emplace_back("note", summary.note);
  if (summary.test_accuracy) {
    rows.emplace_back("test accuracy", ReadablePercent(*summary.test_accuracy));
  }
  if (summary.test_loss) rows.emplace_back("test loss", ReadableLoss(*summary.test_loss));
  for (const auto& [name, value] : summary.test_measures) {
    rows.emplace_back("test " + name, ReadableMeasure(value));
  }
  rows.emplace_back("epochs", absl::StrFormat("%.2f", summary.epochs));
  rows.emplace_back("steps",
                    absl::StrCat(summary.counts_incomplete ? "at least " : "", summary.steps));
  const std::optional<double>& since = summary.seconds_since_resume;
  rows.emplace_back(
      "wall time",
      absl::StrCat(ReadableTime(summary.wall_seconds),
                   since ? absl::StrCat(" (since the resume: ", ReadableTime(*since), ")") : ""));
  rows.emplace_back("samples/s", absl::StrCat(ReadableCount(summary.samples_per_second),
                                              since ? " (since the resume)" : ""));
  if (const std::string phases = Shares(summary.phase_seconds); !phases.empty()) {
    rows.emplace_back("workers' time", phases);
  }
  rows.emplace_back("input stall", absl::StrFormat("%.1f %%", 100 * summary.input_stall));
  rows.emplace_back("pushed", Traffic(summary.bytes_pushed, summary.bytes_pushed_dense));
  rows.emplace_back("pulled", Traffic(summary.bytes_pulled, summary.bytes_pulled_dense));
  rows.emplace_back("staleness", Spread(summary.staleness));
  if (summary.push_staleness.max > 0) {
    rows.emplace_back("of pushes", Spread(summary.push_staleness));
  }
  if (summary.residual_norm_lost > 0) {
    rows.emplace_back("residual lost", absl::StrFormat("of norm %.4g, with workers that ended",
                                                       summary.residual_norm_lost));
  }
  if (summary.batches_repeated > 0 || summary.batches_lost > 0) {
    rows.emplace_back("dealt again",
                      absl::StrFormat("%d batches of workers that left or died; %d were left out",
                                      summary.batches_repeated, summary.batches_lost));
  }
  for (const auto& [reason, count] : summary.rejected) {
    rows.emplace_back("refused", absl::StrCat(count, " messages: ", reason));
  }
  const std::string servers =
      summary.servers > 1 ? absl::StrCat(" on ", summary.servers, " servers") : "";
  rows.emplace_back(
      "cluster",
      absl::StrCat(summary.shards, summary.shards == 1 ? " shard" : " shards", servers, ", ",
                   summary.workers, summary.workers == 1 ? " worker, " : " workers, ",
                   summary.transport, ", push ", summary.codec));
  if (!summary.codecs.empty()) rows.emplace_back("pushed as", Counted(summary.codecs));
  if (summary.best_checkpoint) {
    rows.emplace_back(
        "best", absl::StrCat("checkpoint ", *summary.best_checkpoint, " (--checkpoint best)"));
  }
  rows.emplace_back("run directory", run_dir);
  std::string text = absl::StrCat(summary.name, "\n");
  int widest = 14;
  for (const auto& [key, value] : rows) widest = std::max(widest, static_cast<int>(key.size()));
  for (const auto& [key, value] : rows) {
    absl::StrAppendFormat(&text, "  %-*s %s\n", widest, key, value);
  }
  return text;
}

namespace {

// The weights that the evaluations are of, as options of ps-ctl.
std::string Evaluated(const Summary& summary, const Config& config) {
  return absl::StrCat(summary.best_checkpoint ? " --checkpoint best" : "",
                      config.train().average() > 0 ? " --average" : "");
}

}  // namespace

std::string NextCommands(const Summary& summary, const std::string& run_dir,
                         const StartedAs& started) {
  std::string text = "next commands to try\n";
  const std::string dir = ShellLine({run_dir});
  if (summary.status != Summary::Status::kFinished) {
    absl::StrAppend(&text, "  ps-ctl status ", dir, "\n");
    // The error said how the servers go on that etcd knows.
    if (started.servers.empty() ? !HasCheckpoint(run_dir) : !started.etcd.empty()) return text;
    // Likewise of a journal that has more than the checkpoints.
    if (summary.status == Summary::Status::kInterrupted && JournalsGoFurther(run_dir)) return text;
    // The newest checkpoint of training that diverged is the wrong one to go on from.
    absl::StrAppend(&text, "  ",
                    SaysDiverged(summary.error) ? absl::StrCat("ps-ctl checkpoints ", dir)
                                                : ResumeCommand(run_dir, started),
                    "\n");
    return text;
  }
  // Only the program knows the network.
  const Config config = LoadConfig(RunDir(run_dir).ConfigFile()).value_or(Config());
  const std::string which = Evaluated(summary, config);
  if (started.command.empty()) absl::StrAppend(&text, "  ps-ctl eval --run-dir ", dir, which, "\n");
  const auto newest = NewestCheckpoint(run_dir);
  if (started.command.empty() && newest &&
      CheckPredictable(config.data().format(), newest->model().preparation()).ok()) {
    absl::StrAppend(&text, "  ps-ctl predict --run-dir ", dir, which, " --data NEW\n");
  }
  absl::StrAppend(&text, "  ps-ctl export --run-dir ", dir, which, " --out weights.safetensors\n",
                  "  ", ShellLine({"ps-run", run_dir + "/config.yaml"}),
                  " --set compression.push=", summary.codec == "onebit" ? "topk" : "onebit",
                  started.command.empty() ? "" : " -- ", ShellLine(started.command), "\n");
  return text;
}

}  // namespace psgd
