// The weights of a run, from wherever they are, and what they are worth.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "experiment/record/weights_collector.h"
#include "proto/control.pb.h"
#include "worker/control_client.h"

namespace psgd {

// As they are now; training goes on meanwhile.
absl::StatusOr<WeightsCollector> WeightsOfServer(ControlClient& client);

// Of the newest sound checkpoint, or of that one. What was passed over is told in `notes`.
absl::StatusOr<WeightsCollector> WeightsOfRun(const std::string& run_dir,
                                              std::optional<uint64_t> checkpoint,
                                              std::vector<std::string>* notes);

struct EvaluateOptions {
  std::string engine = "onednn";
  int threads = 1;
};

// Builds the network that the weights' config describes and runs its test set through it.
absl::StatusOr<EvalResult> EvaluateWeights(const WeightsCollector& weights,
                                           const EvaluateOptions& options);

// The network with these weights, as ONNX. Opens the data for the size of their samples.
absl::Status WriteOnnx(const WeightsCollector& weights, const std::string& path);

}  // namespace psgd
