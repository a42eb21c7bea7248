#include "tests/unit/sweep/made_runs.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "experiment/config/config_yaml.h"
#include "experiment/record/records.h"
#include "experiment/record/summary.h"

namespace psgd {

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string ReadText(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void WriteRunConfig(const std::string& folder, const MadeRun& run) {
  const auto config = ParseConfig(
      absl::StrCat(
          "{name: made, seed: ", run.seed,
          ", model: {zoo: mlp}, data: {format: synthetic, batch: ", run.batch,
          ", train_samples: ", run.train_samples, "}, consistency: {staleness: ", run.staleness,
          "}, compression: {push: ", run.push, "}, cluster: {workers: ", run.workers, "}}"),
      "made");
  WriteText(folder + "/config.yaml", FormatConfig(config.value()));
}

void WriteRun(const std::string& folder, const MadeRun& run) {
  std::filesystem::create_directories(folder);
  WriteRunConfig(folder, run);
  auto metrics = MetricsWriter::Open(folder + "/metrics.jsonl").value();
  const int epochs = static_cast<int>(run.accuracies.size());
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const double share = static_cast<double>(epoch) / epochs;
    for (int i = 0; i < run.progress_records; ++i) {
      (void)metrics->Write("progress", run.seconds * share - 0.01,
                           {{"epoch", epoch},
                            {"loss", 1 - share / 2},
                            {"samples_per_second", run.samples_per_second},
                            {"bytes_pushed", static_cast<double>(run.bytes_pushed) * share},
                            {"bytes_pulled", 2e6 * share},
                            {"samples", 1000 * epoch},
                            {"seconds_data", 1 * share},
                            {"seconds_compute", 5 * share},
                            {"seconds_encode", 2 * share},
                            {"seconds_wait", 1 * share},
                            {"seconds_wire", 0.75 * share},
                            {"seconds_apply", 0.25 * share}});
    }
    Record evaluation = {{"epoch", epoch}, {"accuracy", Record()}, {"loss", 0.5}};
    const double value = run.accuracies[static_cast<size_t>(epoch) - 1];
    if (run.measure.empty()) {
      evaluation["accuracy"] = value;
    } else {
      evaluation["measures"] = {{run.measure, value}};
    }
    (void)metrics->Write("evaluation", run.seconds * share, evaluation);
  }
  (void)metrics->Write("staleness", run.seconds, {{"pulls", run.staleness_counts}});

  Summary summary;
  summary.name = "made";
  summary.status = run.status == "failed"        ? Summary::Status::kFailed
                   : run.status == "interrupted" ? Summary::Status::kInterrupted
                                                 : Summary::Status::kFinished;
  if (run.status == "failed") summary.error = "worker-1 was killed";
  summary.stopped_early = run.stopped_early;
  if (run.measure.empty()) {
    summary.test_accuracy = run.accuracies.back();
  } else {
    summary.test_measures[run.measure] = run.accuracies.back();
  }
  summary.test_loss = 0.5;
  summary.epochs = epochs;
  summary.wall_seconds = run.seconds;
  summary.samples_per_second = run.samples_per_second;
  summary.bytes_pushed = run.bytes_pushed;
  summary.bytes_pushed_dense = 1'000'000;
  summary.bytes_pulled = summary.bytes_pulled_dense = 2'000'000;
  summary.workers = run.workers;
  summary.codec = run.push;
  summary.seed = static_cast<uint64_t>(run.seed);
  (void)WriteSummary(summary, folder + "/summary.json");
}

}  // namespace psgd
