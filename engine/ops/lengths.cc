#include "engine/ops/lengths.h"

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddLengths(Graph* graph, const std::string& name, const Lengths& op,
                                    TensorId x) {
  const Shape& in = graph->shape(x);
  if (in.size() != 2 || graph->tensors[x].element != Element::kInt32 || op.places < 0 ||
      op.places > in[1]) {
    return InvalidArgumentError(name, ": ", ShapeText(in), " are not rows of ", op.places,
                                " tokens or more");
  }
  return graph->AddResult(name, op, {x}, {in[0]}, Element::kInt32);
}

}  // namespace psgd
