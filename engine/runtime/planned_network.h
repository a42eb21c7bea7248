// A network but for its memory: the graphs, the backend that computes them, and the plan of where
// everything will lie. What trains (Network) and what only tells (PlanMemory) both begin here.
#pragma once

#include <memory>

#include "common/status.h"
#include "engine/graph/builder.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/network.h"

namespace psgd {

// The network that `config` asks for as it is trained: with its reverse pass, and with what
// model.recompute computes again. Errors are of the layer, the name or the key that does not fit.
absl::StatusOr<ModelGraph> BuildTrainingGraph(const ModelConfig& config, const InputShape& shape,
                                              int batch);

// Its parts refer to each other, so it stays where it is.
struct PlannedNetwork {
  // `plan_only`: see BackendOptions.
  static absl::StatusOr<std::unique_ptr<PlannedNetwork>> Create(const ModelConfig& model,
                                                                const InputShape& shape, int batch,
                                                                const NetworkOptions& options,
                                                                bool plan_only = false);
  PlannedNetwork() = default;
  PlannedNetwork(const PlannedNetwork&) = delete;
  PlannedNetwork& operator=(const PlannedNetwork&) = delete;

  // Training and evaluation never run together, so they share it.
  size_t temporary_bytes() const;

  std::unique_ptr<Backend> backend;
  ModelGraph train, evaluate;
  std::unique_ptr<Executor> train_executor, evaluate_executor;
};

}  // namespace psgd
