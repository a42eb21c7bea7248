#include "engine/ops/layernorm.h"

#include "engine/ops/norm_gradient.h"
#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddLayerNorm(Graph* graph, const std::string& name, const LayerNorm& op,
                                      TensorId x, TensorId gamma, TensorId beta) {
  const Shape in = graph->shape(x);
  if (in.size() < 2 || graph->shape(gamma) != Shape{in.back()} ||
      graph->shape(beta) != Shape{in.back()}) {
    return InvalidArgumentError(name, ": ", ShapeText(graph->shape(gamma)), " and ",
                                ShapeText(graph->shape(beta)),
                                " weights do not fit the last axis of ", ShapeText(in));
  }
  const Shape rows(in.begin(), in.end() - 1);
  const TensorId y = graph->AddTensor(name, in);
  const TensorId mean = graph->AddTensor(name + ".mean", rows);
  const TensorId var = graph->AddTensor(name + ".var", rows);
  graph->AddNode(name, op, {x, gamma, beta}, {y, mean, var});
  return y;
}

void AddGradient(const LayerNorm& op, const Node& node, GradientTape* tape) {
  AddNormGradient(LayerNormBackward{op}, node, tape);
}

}  // namespace psgd
