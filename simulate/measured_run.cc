// Reads a run's directory.
#include <algorithm>
#include <cmath>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "experiment/config/config_yaml.h"
#include "experiment/record/records.h"
#include "experiment/record/run_dir.h"
#include "experiment/record/summary.h"
#include "simulate/calibrate.h"

namespace psgd::sim {
namespace {

constexpr double kFewestSteps = 16;

// "cpu, 2 threads".
double ThreadsOf(const std::string& device) {
  const std::vector<std::string> words = absl::StrSplit(device, ' ');
  double threads = 0;
  for (size_t i = 1; i < words.size(); ++i) {
    if (absl::StartsWith(words[i], "thread") && absl::SimpleAtod(words[i - 1], &threads))
      return threads;
  }
  return 1;
}

// The standard deviation of the computing times in a trace, divided by their mean; 0: the trace is
// missing, unreadable or too short.
double SpreadIn(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return 0;
  const Record trace = Record::parse(file, nullptr, /*allow_exceptions=*/false);
  const Record* events = &trace;
  if (trace.is_object() && trace.contains("traceEvents")) events = &trace["traceEvents"];
  if (!events->is_array()) return 0;
  double sum = 0, squares = 0, count = 0, skipped = 0;
  for (const Record& event : *events) {
    if (!event.is_object() || event.value("name", "") != "compute") continue;
    if (skipped++ < 2) continue;  // the first ones warm up
    const double took = NumberIn(event, "dur");
    sum += took;
    squares += took * took;
    ++count;
  }
  if (count < 8 || sum <= 0) return 0;
  const double mean = sum / count;
  return std::sqrt(std::max(0.0, squares / count - mean * mean)) / mean;
}

absl::Status AddMetrics(const std::string& path, MeasuredRun* run) {
  PSGD_ASSIGN_OR_RETURN(const std::vector<Record> records, ReadMetrics(path));
  bool progress = false;
  for (const Record& record : records) {
    const std::string kind = record.value("kind", "");
    if (kind == "progress") {
      progress = true;
      run->steps = NumberIn(record, "steps");
      run->batch = run->steps == 0 ? 0 : NumberIn(record, "samples") / run->steps;
      run->data = NumberIn(record, "seconds_data");
      run->compute = NumberIn(record, "seconds_compute");
      run->encode = NumberIn(record, "seconds_encode");
      // However it was spent: the prediction has no name for the parts.
      run->wait = NumberIn(record, "seconds_wait") + NumberIn(record, "seconds_wire") +
                  NumberIn(record, "seconds_apply");
      run->cpu_workers = NumberIn(record, "seconds_cpu");
      run->cpu_server = NumberIn(record, "seconds_cpu_server");
      run->bytes = NumberIn(record, "bytes_pushed") + NumberIn(record, "bytes_pulled");
      const double dense = NumberIn(record, "bytes_pushed_dense");
      run->weights = run->steps == 0 ? 0 : dense / run->steps / sizeof(float);
    } else if (kind == "evaluation") {
      ++run->evaluations;
      run->evaluating += NumberIn(record, "took");
    } else if (kind == "detail") {
      run->messages = 0;
      for (const Record& shard : record.value("shards", Record::array())) {
        run->messages += NumberIn(shard, "pushes") + NumberIn(shard, "pulls");
      }
      const Record workers = record.value("workers", Record::array());
      if (!workers.empty()) run->threads = ThreadsOf(workers[0].value("device", ""));
    }
  }
  if (!progress) {
    return InvalidArgumentError(
        path, ": no progress was recorded; let the run end, and calibrate from that");
  }
  if (run->steps < kFewestSteps) {
    return InvalidArgumentError(path, ": only ", run->steps, " steps were recorded; ",
                                "calibrate from a run of ", kFewestSteps, " or more");
  }
  if (run->compute <= 0 || run->cpu_workers <= 0 || run->cpu_server <= 0 || run->messages <= 0) {
    return InvalidArgumentError(
        path,
        ": it lacks seconds_compute, seconds_cpu, seconds_cpu_server or the messages of shards: "
        "the run is of an older version, or its server was started again; run ps-run once more");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MeasuredRun> ReadMeasuredRun(const std::string& dir) {
  const RunDir files(dir);
  const auto refuse = [&](const absl::Status& why) {
    return InvalidArgumentError("cannot calibrate from ", dir, ": ", why.message(),
                                ". Make a run with ps-run CONFIG --workers 1 ",
                                "--threads 1 --run-dir DIR");
  };
  MeasuredRun run;
  run.dir = dir;
  auto config = LoadConfig(files.ConfigFile());
  if (!config.ok()) return refuse(config.status());
  run.config = *std::move(config);
  const auto summary = ReadSummary(files.SummaryFile());
  if (!summary.ok()) return refuse(summary.status());
  if (summary->status != Summary::Status::kFinished) {
    return refuse(InvalidArgumentError(files.SummaryFile(), " says that the run did not finish"));
  }
  if (summary->servers > 1) {
    return refuse(InvalidArgumentError(
        "its shards were on ", summary->servers,
        " servers, and what the processors did is recorded of one of them alone"));
  }
  run.workers = summary->workers;
  run.train_seconds = summary->train_seconds;
  run.samples_per_second = summary->samples_per_second;
  run.codec = summary->codec;
  const absl::Status metrics = AddMetrics(files.MetricsFile(), &run);
  if (!metrics.ok()) return refuse(metrics);
  run.spread = SpreadIn(files.TraceFile());
  return run;
}

}  // namespace psgd::sim
