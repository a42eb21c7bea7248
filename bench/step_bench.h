// How many samples a second one replica trains on: forward and backward of a zoo model on this
// machine, with random samples of the shape, without data loading and without a server. On a device
// weights stay as they are, and each step brings the next batch there while it computes.
#pragma once

#include <string>
#include <vector>

#include "bench/bench_row.h"
#include "common/sample_shape.h"
#include "common/status.h"
#include "engine/graph/precision.h"
#include "proto/config.pb.h"

namespace psgd {

struct StepBenchOptions {
  ModelConfig model;
  SampleShape shape = {1, 28, 28, 10};
  int batch = 64;
  std::string backend = "onednn";
  std::string plugin_dir = {};  // see NetworkOptions
  int threads = 1;
  Precision precision = Precision::kFp32;
  std::string choices = {};  // see NetworkOptions
  double seconds = 2;        // of timed steps; the warm-up takes at most as long
  bool roofline = false;     // also the rows of bench/roofline.h
};

// The first row is of the step. `extra` has samples_per_second of the median step;
// ms_per_step_{median,min,max}; batch, threads, parameters, and mib of memory. On a device the
// batch of these steps stays there, as in PyTorch's; ms_per_step_fed_median is of steps that bring
// the next batch from the host, as training does; `recorded` is 1 if steps are replayed as one
// recorded launch, else 0. There is no limit to compare with: gbps, limit_gbps and ratio are 0.
// `verified`: on a small batch, results agree with the reference backend's.
absl::StatusOr<std::vector<BenchRow>> RunStepBench(const StepBenchOptions& options);

}  // namespace psgd
