// A config simulated with several numbers of workers and with changes, and the curves of that.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/status.h"
#include "proto/config.pb.h"
#include "simulate/modelled_cluster.h"

namespace psgd::sim {

struct ScalingRequest {
  Config config;                  // resolved
  std::vector<int> workers;       // empty: as the config says
  std::vector<std::string> also;  // "compression.push=none": each is a further curve; "NAME: a=1;
                                  // b=2" changes both and says what it is called
  std::string name;               // of the config's own curve, where there are others
  int global_batch = 0;           // shared by the workers; 0: each has the config's batch
  uint64_t samples = 0;           // of an epoch; 0: those of the config's data
  SimulationOptions options;
  std::function<void(const Prediction&)> on_prediction;  // as they come, if set
  std::function<void(const std::string&)> on_note;       // for people, if set
};

// An error: the model has no time for computing, or a global batch less than a sample for each
// worker. Where workers cannot share it evenly each has the samples that all can have, and a note
// says so.
absl::StatusOr<std::vector<Prediction>> SimulateScaling(const ScalingRequest& request);

// "1,2,4", "1-4": ascending, without repetition.
absl::StatusOr<std::vector<int>> ParseWorkers(const std::string& text);

// Throughput over the number of workers, with the ideal line, as an SVG file.
std::string ScalingPlot(const std::string& title, const std::vector<Prediction>& predictions);

}  // namespace psgd::sim
