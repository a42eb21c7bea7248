// What a simulation says of a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/metrics.h"
#include "simulate/traffic.h"

namespace psgd::sim {

struct Prediction {
  std::string name;  // what was changed of the config
  int workers = 0;
  int shards = 0;
  int batch = 0;        // of a worker
  uint64_t clocks = 0;  // that were simulated
  uint64_t simulated_shards = 0;
  HeldShares own, beside;  // servers on hosts of their own, and beside workers

  double samples_per_second = 0;  // while it trains
  double run_seconds = 0;         // of the whole run: its start, its epochs and their evaluations
  double run_samples_per_second = 0;

  // Seconds of a step, a mean over steps and workers.
  double step = 0;
  double compute = 0;
  double encode = 0;
  double wait = 0;

  // A step of a worker, headers included; and of the run.
  double bytes_pushed_a_step = 0;
  double bytes_pulled_a_step = 0;
  double bytes_pushed = 0;
  double bytes_pulled = 0;

  CountHistogram pull_staleness;
  CountHistogram push_staleness;

  // Shares of the time.
  double shard_busy = 0;      // of the busiest shard's thread
  double server_link_in = 0;  // of the busiest host
  double server_link_out = 0;
  double worker_link_in = 0;  // a mean over workers
  double worker_link_out = 0;
  double processors = 0;  // of the host that all share, or of the busiest server

  uint64_t deaths = 0;
  uint64_t resent = 0;
  double simulated_seconds = 0;
  double took = 0;  // to simulate
};

// What it is bound by, in a word: compute, server link, ...
std::string BoundBy(const Prediction& prediction);

// For people: a line each, and how servers beside workers share the bytes.
std::string PredictionTable(const std::vector<Prediction>& predictions);
// A JSON object a line.
std::string PredictionJson(const std::vector<Prediction>& predictions);
std::string PredictionCsv(const std::vector<Prediction>& predictions);

}  // namespace psgd::sim
