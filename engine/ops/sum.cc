#include "engine/ops/sum.h"

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddSum(Graph* graph, const std::string& name,
                                std::vector<TensorId> terms) {
  if (terms.empty()) return absl::InvalidArgumentError(name + ": nothing to add");
  const Shape shape = graph->shape(terms[0]);
  for (TensorId term : terms) {
    if (graph->shape(term) != shape) {
      return InvalidArgumentError(name, ": cannot add ", ShapeText(shape), " and ",
                                  ShapeText(graph->shape(term)));
    }
  }
  return graph->AddResult(name, Sum{}, std::move(terms), shape);
}

void AddGradient(const Sum&, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  for (TensorId term : node.inputs) tape->Contribute(term, dy);
}

}  // namespace psgd
