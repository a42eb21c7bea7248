#include "engine/runtime/planned_network.h"

#include <algorithm>

#include "engine/graph/differentiate.h"
#include "engine/graph/recompute.h"
#include "engine/runtime/plugin.h"
#include "engine/zoo/zoo.h"

namespace psgd {

absl::StatusOr<ModelGraph> BuildTrainingGraph(const ModelConfig& config, const SampleShape& shape,
                                              int batch) {
  PSGD_ASSIGN_OR_RETURN(ModelGraph model, BuildModel(config, shape, batch, Mode::kTrain));
  const size_t forward_nodes = model.graph.nodes.size();
  if (config.meprop() > 0 && KeepLargestGradients(config.meprop(), &model.graph) == 0) {
    return InvalidArgumentError("model.meprop: no dense layer of ", ModelName(config),
                                " has more than ", config.meprop(),
                                " outputs, so it would do nothing");
  }
  model.gradients_begin = static_cast<TensorId>(model.graph.tensors.size());
  PSGD_RETURN_IF_ERROR(Differentiate(&model.graph).status());
  model.gradients_end = static_cast<TensorId>(model.graph.tensors.size());
  PSGD_RETURN_IF_ERROR(Recompute(config.recompute(), forward_nodes, &model.graph));
  return model;
}

absl::StatusOr<std::unique_ptr<PlannedNetwork>> PlannedNetwork::Create(
    const ModelConfig& model, const SampleShape& shape, int batch, const NetworkOptions& options,
    bool plan_only) {
  auto made = std::make_unique<PlannedNetwork>();
  PSGD_ASSIGN_OR_RETURN(made->train, BuildTrainingGraph(model, shape, batch));
  if (options.factors) HandOutFactors(options.factors, &made->train.graph);
  PSGD_ASSIGN_OR_RETURN(made->evaluate, BuildModel(model, shape, batch, Mode::kEvaluate));
  const BackendOptions backend = {.threads = std::max(1, options.threads),
                                  .dropout = {options.seed, options.worker},
                                  .device = options.device,
                                  .precision = options.precision,
                                  .plan_only = plan_only,
                                  .choices = options.choices};
  PSGD_ASSIGN_OR_RETURN(made->backend, LoadBackend(options.backend, options.plugin_dir, backend));
  Backend* const computes = made->backend.get();
  PSGD_ASSIGN_OR_RETURN(made->train_executor, Executor::Create(made->train.graph, computes));
  PSGD_ASSIGN_OR_RETURN(made->evaluate_executor, Executor::Create(made->evaluate.graph, computes));
  return made;
}

size_t PlannedNetwork::temporary_bytes() const {
  return std::max(train_executor->plan().temporary_bytes(),
                  evaluate_executor->plan().temporary_bytes());
}

}  // namespace psgd
