#include "engine/runtime/factors.h"

#include <map>
#include <utility>
#include <variant>

namespace psgd {

void HandOutFactors(const ChooseFactors& choose, Graph* graph) {
  std::map<TensorId, Parameter*> by_gradient;
  for (Parameter& parameter : graph->parameters) by_gradient[parameter.gradient] = &parameter;
  for (Node& node : std::exchange(graph->nodes, {})) {
    const bool dense = std::holds_alternative<DenseBackwardWeights>(node.op);
    const auto found = dense ? by_gradient.find(node.outputs[0]) : by_gradient.end();
    if (found == by_gradient.end()) {
      graph->nodes.push_back(std::move(node));
      continue;
    }
    Parameter& parameter = *found->second;
    const Tensor weights = graph->tensors[parameter.value];
    const TensorId x = node.inputs[0], dy = node.inputs[1];
    const int64_t rows = graph->shape(x)[0];
    if (!choose(weights.name, weights.shape, rows)) {
      graph->nodes.push_back(std::move(node));
      continue;
    }
    if (node.outputs.size() > 1) {
      graph->AddNode(node.name + ".bias", RowBiasBackward{}, {dy}, {node.outputs[1]});
    }
    parameter.gradient = graph->AddTensor({.name = "factors of d(" + weights.name + ")",
                                           .shape = {rows, weights.shape[1] + weights.shape[0]},
                                           .external = true});
    graph->AddNode(node.name, Concat{1}, {x, dy}, {parameter.gradient});
  }
}

int64_t FactorRows(const Graph& graph, const Parameter& parameter) {
  const Shape& gradient = graph.shape(parameter.gradient);
  return gradient == graph.shape(parameter.value) ? 0 : gradient[0];
}

}  // namespace psgd
