#include "engine/ops/embedding.h"

#include "absl/strings/str_cat.h"
#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddEmbedding(Graph* graph, const std::string& name, TensorId index,
                                      TensorId weight) {
  const Shape& table = graph->shape(weight);
  Shape shape = graph->shape(index);
  if (table.size() != 2 || graph->tensors[index].element != Element::kInt32) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": cannot look up ", ShapeText(shape),
                                                   " in a table of ", ShapeText(table),
                                                   "; indices are int32, tables have two axes"));
  }
  shape.push_back(table[1]);
  const TensorId y = graph->AddTensor(name, std::move(shape));
  graph->AddNode(name, Embedding{}, {index, weight}, {y});
  return y;
}

void AddGradient(const Embedding&, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  const TensorId weight = node.inputs[1];
  tape->AddBackward(node, EmbeddingBackward{}, {node.inputs[0], dy}, weight);
}

}  // namespace psgd
