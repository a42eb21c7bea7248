// summary.json: a run's settings and results, for people, scripts and sweeps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/metrics.h"
#include "common/status.h"

namespace psgd {

struct StalenessSummary {
  double mean = 0;
  uint64_t p50 = 0;
  uint64_t p99 = 0;
  uint64_t max = 0;

  static StalenessSummary Of(const CountHistogram& histogram);
  bool operator==(const StalenessSummary&) const = default;
};

struct Summary {
  enum class Status { kFinished, kFailed, kInterrupted };

  std::string name;
  Status status = Status::kFailed;      // failed until the run has succeeded
  std::string error;                    // why the run failed or was interrupted
  std::string stopped_early;            // why it ended before its last epoch (train.early_stop)
  std::string note;                     // what is odd about the result; empty: nothing
  std::optional<double> test_accuracy;  // of the last evaluation; null: none
  std::optional<double> test_loss;
  std::map<std::string, double> test_measures;  // other measures, such as hit_ratio_10
  double epochs = 0;                            // finished epochs, with fractions
  uint64_t steps = 0;                           // summed over workers
  bool counts_incomplete = false;               // see WorkerReport.counts_incomplete
  double wall_seconds = 0;                      // from start to end, of all parts of a resumed run
  std::optional<double> seconds_since_resume;   // of wall_seconds; null: it was not resumed
  double train_seconds = 0;                     // spent training; since the last resume
  double samples_per_second = 0;                // while training; since the last resume
  std::map<std::string, double>
      phase_seconds;              // summed over workers: data, compute, encode, wait, wire, apply
  double input_stall = 0;         // share of the workers' time spent waiting for data
  double residual_norm_lost = 0;  // residuals of workers that ended before they could push them
  uint64_t batches_repeated = 0;  // batches of lost workers, dealt again in the same epoch
  uint64_t batches_lost = 0;      // likewise, but the next epoch had begun: not dealt again
  uint64_t bytes_pushed = 0;      // as sent by processes, headers included
  uint64_t bytes_pulled = 0;
  uint64_t bytes_pushed_dense = 0;  // the cost of the same traffic in fp32
  uint64_t bytes_pulled_dense = 0;
  StalenessSummary staleness;       // of pulls: fastest clock minus slowest, which the bound limits
  StalenessSummary push_staleness;  // versions that a slice gained between pull and push
  std::map<std::string, uint64_t> rejected;  // messages refused, by reason
  int workers = 0;
  int shards = 0;
  int servers = 1;                          // that held the shards at the end
  std::optional<uint64_t> best_checkpoint;  // the one that durability.keep_best keeps
  std::optional<std::string>
      failed_checkpoint;  // why the last checkpoint could not be written; empty: it was written
  std::string transport;
  std::string codec;
  std::string codec_carries;  // as "0 of 4 tensors", if that is less than half of the weights
  std::map<std::string, std::string> codecs;  // the last choice of auto for each parameter's pushes
  uint64_t seed = 0;

  bool operator==(const Summary&) const = default;
};

// "finished", "failed" or "interrupted".
const char* NameOf(Summary::Status status);

// Replaces the whole file. A reader sees the old or the new file, also after a crash.
absl::Status WriteSummary(const Summary& summary, const std::string& path);
// A key that the file lacks keeps its value of an empty summary.
absl::StatusOr<Summary> ReadSummary(const std::string& path);

}  // namespace psgd
