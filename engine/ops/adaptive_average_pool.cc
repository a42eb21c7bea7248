#include "engine/ops/adaptive_average_pool.h"

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddAdaptiveAveragePool(Graph* graph, const std::string& name,
                                                const Extent& size, TensorId x) {
  const Shape in = graph->shape(x);
  if (in.size() != 4 || size.height < 1 || size.width < 1) {
    return InvalidArgumentError(name, ": cannot pool ", ShapeText(in), " to ", size.height, "x",
                                size.width);
  }
  if (in[2] % size.height == 0 && in[3] % size.width == 0) {
    const Extent part(static_cast<int>(in[2] / size.height), static_cast<int>(in[3] / size.width));
    return AddPool(graph, name, {Pool::Kind::kAverage, {.kernel = part, .stride = part}}, x);
  }
  return graph->AddResult(name, AdaptiveAveragePool{}, {x},
                          {in[0], in[1], size.height, size.width});
}

void AddGradient(const AdaptiveAveragePool&, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  tape->AddBackward(node, AdaptiveAveragePoolBackward{}, {dy}, node.inputs[0]);
}

}  // namespace psgd
