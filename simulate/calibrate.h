// From what a run recorded to a model of the machine that it ran on.
#pragma once

#include <string>

#include "common/status.h"
#include "proto/config.pb.h"
#include "proto/sim_model.pb.h"

namespace psgd::sim {

struct MeasuredRun {
  std::string dir;
  Config config;
  int workers = 0;
  double threads = 1;  // that a worker computed with
  double steps = 0;    // of all workers
  double batch = 0;    // samples a step, on average
  double train_seconds = 0;
  double samples_per_second = 0;
  std::string codec;
  // Seconds of all workers.
  double data = 0, compute = 0, encode = 0, wait = 0;
  // Seconds of processors.
  double cpu_workers = 0, cpu_server = 0;
  double messages = 0;                     // that came in to the shards
  double bytes = 0;                        // pushed and pulled
  double weights = 0;                      // of the model
  double evaluations = 0, evaluating = 0;  // how many, and their seconds
  double spread = 0;                       // of a step's computing, from a trace; 0: there is none
};

// Errors name the file, and what to do for one that is there and complete.
absl::StatusOr<MeasuredRun> ReadMeasuredRun(const std::string& dir);

struct Calibration {
  SimModel model;
  double again = 0;  // samples/s that the model gives for the run itself
};

// The run's workers and server were on one host with so many cores. What cannot be read off, the
// way of a pull, is fitted: the simulated run is to wait as long as the measured one.
absl::StatusOr<Calibration> Calibrate(const MeasuredRun& run, double cores);

}  // namespace psgd::sim
