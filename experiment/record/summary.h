// summary.json: what a run was and what came of it, for people, scripts and sweeps.
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
  Status status = Status::kFailed;      // until all went well
  std::string error;                    // what ended a failed or interrupted run
  std::optional<double> test_accuracy;  // of the last evaluation; null: there was none
  std::optional<double> test_loss;
  std::map<std::string, double> test_measures;  // beside them, as hit_ratio_10
  double epochs = 0;                            // finished, parts included
  uint64_t steps = 0;                           // of all workers
  double wall_seconds = 0;                      // from start to end
  double train_seconds = 0;                     // of those, training
  double samples_per_second = 0;                // while training
  std::map<std::string, double>
      phase_seconds;              // of all workers: data, compute, encode, wait, wire, apply
  double input_stall = 0;         // share of the workers' time spent waiting for data
  double residual_norm_lost = 0;  // with workers that ended before they could push it
  uint64_t batches_repeated = 0;  // of workers that were lost, dealt again in their epoch
  uint64_t batches_lost = 0;      // likewise, when the next epoch had begun: left out
  uint64_t bytes_pushed = 0;      // as left the processes, headers included
  uint64_t bytes_pulled = 0;
  uint64_t bytes_pushed_dense = 0;  // what the same in fp32 would have cost
  uint64_t bytes_pulled_dense = 0;
  StalenessSummary staleness;       // of pulls: fastest clock minus slowest, what the bound bounds
  StalenessSummary push_staleness;  // versions that a slice gained between pull and push
  std::map<std::string, uint64_t> rejected;  // messages refused, by reason
  int workers = 0;
  int shards = 0;
  int servers = 1;  // that held them at the end
  std::optional<std::string>
      failed_checkpoint;  // why the last one could not be written; empty: it was
  std::string transport;
  std::string codec;
  std::map<std::string, std::string>
      codecs;  // that auto took last for the pushes of each parameter
  uint64_t seed = 0;

  bool operator==(const Summary&) const = default;
};

// Replaces the file as a whole: a reader, or a crash at any moment, sees the old or the new one.
absl::Status WriteSummary(const Summary& summary, const std::string& path);
// What a key that the file lacks would say is left as it is in an empty summary.
absl::StatusOr<Summary> ReadSummary(const std::string& path);

}  // namespace psgd
