// A network without memory: the graphs, their backend, and the memory plan. Training (Network) and
// memory reports (PlanMemory) both start here.
#pragma once

#include <memory>

#include "common/status.h"
#include "engine/graph/builder.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/network.h"

namespace psgd {

// Builds the training graph of `config`, with reverse pass and recomputation. An error names the
// layer, the model or the key that does not fit.
absl::StatusOr<ModelGraph> BuildTrainingGraph(const ModelConfig& config, const SampleShape& shape,
                                              int batch);

// Not movable, because its parts refer to each other. Not thread-safe.
struct PlannedNetwork {
  // `plan_only`: see BackendOptions.
  static absl::StatusOr<std::unique_ptr<PlannedNetwork>> Create(const ModelConfig& model,
                                                                const SampleShape& shape, int batch,
                                                                const NetworkOptions& options,
                                                                bool plan_only = false);
  PlannedNetwork() = default;
  PlannedNetwork(const PlannedNetwork&) = delete;
  PlannedNetwork& operator=(const PlannedNetwork&) = delete;

  // Training and evaluation share this memory, because they never run together.
  size_t temporary_bytes() const;

  std::unique_ptr<Backend> backend;
  ModelGraph train, evaluate;
  std::unique_ptr<Executor> train_executor, evaluate_executor;
};

}  // namespace psgd
