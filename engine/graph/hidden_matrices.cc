#include "engine/graph/hidden_matrices.h"

#include <set>
#include <variant>

namespace psgd {

std::vector<bool> HiddenMatrices(const Graph& graph) {
  std::set<TensorId> matrices, tables;
  TensorId last_dense = kNoTensor;
  for (const Node& node : graph.nodes) {
    const bool dense = std::holds_alternative<Dense>(node.op);
    if (dense) last_dense = node.inputs[1];
    if (dense || std::holds_alternative<Conv2d>(node.op)) matrices.insert(node.inputs[1]);
    if (std::holds_alternative<Embedding>(node.op)) tables.insert(node.inputs[1]);
  }
  std::vector<bool> hidden;
  for (const Parameter& parameter : graph.parameters) {
    hidden.push_back(matrices.contains(parameter.value) && !tables.contains(parameter.value) &&
                     parameter.value != last_dense);
  }
  return hidden;
}

}  // namespace psgd
