#include "engine/ops/batchnorm.h"

#include "engine/ops/norm_gradient.h"
#include "engine/ops/rules.h"

namespace psgd {
namespace {

absl::Status CheckBatchNorm(const Graph& graph, const std::string& name, TensorId x,
                            const BatchNormParameters& p) {
  const Shape& in = graph.shape(x);
  bool fits = in.size() == 4;
  for (TensorId parameter : {p.gamma, p.beta, p.running_mean, p.running_var}) {
    fits = fits && graph.shape(parameter) == Shape{in[1]};
  }
  if (fits) return absl::OkStatus();
  return InvalidArgumentError(name, ": ", ShapeText(graph.shape(p.gamma)),
                              " channels do not fit an input of ", ShapeText(in));
}

}  // namespace

absl::StatusOr<BatchNormOutputs> AddBatchNorm(Graph* graph, const std::string& name,
                                              const BatchNorm& op, TensorId x,
                                              const BatchNormParameters& p) {
  PSGD_RETURN_IF_ERROR(CheckBatchNorm(*graph, name, x, p));
  const Shape in = graph->shape(x);
  const Shape channels = {in[1]};
  if (in[0] * in[2] * in[3] < 2) {
    return InvalidArgumentError(name, ": one value a channel has no variance (", ShapeText(in),
                                "); use a larger batch");
  }
  const TensorId y = graph->AddTensor(name, in);
  const TensorId mean = graph->AddTensor(name + ".mean", channels);
  const TensorId var = graph->AddTensor(name + ".var", channels);
  const TensorId mean_delta = graph->AddTensor(name + ".mean_delta", channels);
  const TensorId var_delta = graph->AddTensor(name + ".var_delta", channels);
  graph->AddNode(name, op, {x, p.gamma, p.beta, p.running_mean, p.running_var},
                 {y, mean, var, mean_delta, var_delta});
  return BatchNormOutputs{y, mean_delta, var_delta};
}

absl::StatusOr<TensorId> AddBatchNormInference(Graph* graph, const std::string& name,
                                               const BatchNormInference& op, TensorId x,
                                               const BatchNormParameters& p) {
  PSGD_RETURN_IF_ERROR(CheckBatchNorm(*graph, name, x, p));
  return graph->AddResult(name, op, {x, p.gamma, p.beta, p.running_mean, p.running_var},
                          graph->shape(x));
}

void AddGradient(const BatchNorm& op, const Node& node, GradientTape* tape) {
  AddNormGradient(BatchNormBackward{op}, node, tape);
}

}  // namespace psgd
