#include "engine/ops/constant.h"

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddConstant(Graph* graph, const std::string& name, const Constant& op,
                                     Shape shape) {
  if (ElementCount(shape) != static_cast<int64_t>(op.values->size())) {
    return InvalidArgumentError(name, ": ", op.values->size(), " values for ", ShapeText(shape));
  }
  return graph->AddResult(name, op, {}, std::move(shape));
}

}  // namespace psgd
