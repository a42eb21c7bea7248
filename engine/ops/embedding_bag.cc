#include "engine/ops/embedding_bag.h"

#include "absl/strings/str_cat.h"
#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddEmbeddingBag(Graph* graph, const std::string& name, TensorId index,
                                         TensorId value, TensorId weight) {
  const Shape& table = graph->shape(weight);
  const Shape& entries = graph->shape(index);
  if (table.size() != 2 || entries.size() != 2 || graph->shape(value) != entries ||
      graph->tensors[index].element != Element::kInt32) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": cannot sum rows of a table of ", ShapeText(table), " by indices of ",
                     ShapeText(entries), " and values of ", ShapeText(graph->shape(value)),
                     "; all have two axes, indices are int32, and each has a value"));
  }
  const TensorId y = graph->AddTensor(name, {entries[0], table[1]});
  graph->AddNode(name, EmbeddingBag{}, {index, value, weight}, {y});
  return y;
}

void AddGradient(const EmbeddingBag&, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  const TensorId value = node.inputs[1], weight = node.inputs[2];
  if (tape->Wanted(value)) {
    return tape->Refuse(absl::UnimplementedError(
        absl::StrCat(node.name, ": the values of an embedding bag are data, not computed")));
  }
  tape->AddBackward(node, EmbeddingBagBackward{}, {node.inputs[0], value, dy}, weight);
}

}  // namespace psgd
