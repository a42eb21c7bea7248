// Reads the weights of a run from a server or from a directory, and evaluates or exports them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "data/dataset.h"
#include "engine/runtime/replicas.h"
#include "experiment/record/weights_collector.h"
#include "proto/control.pb.h"
#include "worker/control_client.h"

namespace psgd {

// Returns the present weights. Training goes on meanwhile.
absl::StatusOr<WeightsCollector> WeightsOfServer(ControlClient& client);

// Returns the weights of `checkpoint`, or of the newest sound checkpoint; or their moving average.
// `notes` names the checkpoints that were skipped.
enum class WhichWeights { kPresent, kAverage };
absl::StatusOr<WeightsCollector> WeightsOfRun(const std::string& run_dir,
                                              std::optional<uint64_t> checkpoint,
                                              WhichWeights which, std::vector<std::string>* notes);

struct EvaluateOptions {
  std::string engine = "onednn";
  int threads = 1;
};

// Whether psgd can build the network: it cannot if a program brought the model.
absl::Status CheckHasNetwork(const WeightsCollector& weights);

// Builds the network that the weights' config describes, with these weights. OUT_OF_RANGE: they are
// not finite.
absl::StatusOr<std::unique_ptr<Replicas>> NetworkWith(const WeightsCollector& weights,
                                                      const SampleShape& shape,
                                                      const EvaluateOptions& options);

// Evaluates the network on its test set.
absl::StatusOr<EvalResult> EvaluateWeights(const WeightsCollector& weights,
                                           const EvaluateOptions& options);

// Writes the network with these weights as ONNX.
absl::Status WriteOnnx(const WeightsCollector& weights, const std::string& path);

}  // namespace psgd
