#include "engine/ops/embedding.h"

#include "absl/strings/str_cat.h"
#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddEmbedding(Graph* graph, const std::string& name, TensorId index,
                                      TensorId weight) {
  const Shape& table = graph->shape(weight);
  Shape shape = graph->shape(index);
  if (table.size() != 2 || graph->tensors[index].element != Element::kInt32) {
    return InvalidArgumentError(name, ": cannot look up ", ShapeText(shape), " in a table of ",
                                ShapeText(table), "; indices are int32, tables have two axes");
  }
  shape.push_back(table[1]);
  return graph->AddResult(name, Embedding{}, {index, weight}, std::move(shape));
}

absl::StatusOr<TensorId> AddEmbeddingBag(Graph* graph, const std::string& name, TensorId index,
                                         TensorId value, TensorId weight) {
  const Shape& table = graph->shape(weight);
  const Shape& entries = graph->shape(index);
  if (table.size() != 2 || entries.size() != 2 || graph->shape(value) != entries ||
      graph->tensors[index].element != Element::kInt32) {
    return InvalidArgumentError(name, ": cannot sum rows of a table of ", ShapeText(table),
                                " by indices of ", ShapeText(entries), " and values of ",
                                ShapeText(graph->shape(value)),
                                "; all have two axes, indices are int32, and each has a value");
  }
  return graph->AddResult(name, Embedding{}, {index, weight, value}, {entries[0], table[1]});
}

void AddGradient(const Embedding&, const Node& node, GradientTape* tape) {
  std::vector<TensorId> inputs = {node.inputs[0], tape->Gradient(node.outputs[0])};
  if (node.inputs.size() > 2) {
    if (tape->Wanted(node.inputs[2])) {
      return tape->Refuse(absl::UnimplementedError(
          absl::StrCat(node.name, ": the values of an embedding bag are data, not computed")));
    }
    inputs.push_back(node.inputs[2]);
  }
  tape->AddBackward(node, EmbeddingBackward{}, std::move(inputs), node.inputs[1]);
}

}  // namespace psgd
