#include "engine/graph/hidden_matrices.h"

#include <set>
#include <variant>

namespace psgd {
namespace {

// The tensor that is a node's matrix, as a parameter may be; kNoTensor: the node has none.
TensorId MatrixOf(const Graph& graph, const Node& node) {
  const auto* conv = std::get_if<Conv2d>(&node.op);
  const auto* product = std::get_if<MatMul>(&node.op);  // of ONNX: a dense layer
  const bool dense = std::holds_alternative<Dense>(node.op);
  const bool has = dense || (conv != nullptr && conv->groups == 1) ||
                   (product != nullptr && graph.shape(node.inputs[1]).size() == 2);
  return has ? node.inputs[1] : kNoTensor;
}

}  // namespace

std::vector<bool> HiddenMatrices(const Graph& forward) {
  std::set<TensorId> parameters, matrices, tables;
  for (const Parameter& parameter : forward.parameters) parameters.insert(parameter.value);
  TensorId last = kNoTensor;
  for (const Node& node : forward.nodes) {
    if (std::holds_alternative<Embedding>(node.op)) tables.insert(node.inputs[1]);
    const TensorId matrix = MatrixOf(forward, node);
    if (!parameters.contains(matrix)) continue;
    matrices.insert(matrix);
    last = matrix;
  }
  std::vector<bool> hidden;
  for (const Parameter& parameter : forward.parameters) {
    const TensorId value = parameter.value;
    hidden.push_back(matrices.contains(value) && !tables.contains(value) && value != last);
  }
  return hidden;
}

}  // namespace psgd
