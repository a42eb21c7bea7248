#include "engine/ops/dropout.h"

#include <algorithm>

#include "engine/ops/rules.h"

namespace psgd {

absl::StatusOr<TensorId> AddDropout(Graph* graph, const std::string& name, const Dropout& op,
                                    TensorId x) {
  if (!(op.rate >= 0 && op.rate < 1)) {
    return InvalidArgumentError(name, ": a dropout rate of ", op.rate, " is not in [0, 1)");
  }
  const Shape shape = graph->shape(x);
  const TensorId y = graph->AddTensor(name, shape);
  const TensorId mask = graph->AddTensor(name + ".mask", shape, Element::kOpaque);
  graph->AddNode(name, op, {x}, {y, mask});
  return y;
}

void AddGradient(const Dropout& op, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  tape->AddBackward(node, DropoutBackward{op.rate}, {dy, node.outputs[1]}, node.inputs[0]);
}

PhiloxKey DropoutKey(const Dropout& dropout, const DropoutSource& source) {
  const uint64_t salt = uint64_t{source.worker} << 32 | dropout.layer;
  return MakeKey(source.seed, RandomPurpose::kDropout, salt);
}

void DrawDropoutMask(const Dropout& dropout, const DropoutSource& source, uint64_t step,
                     std::span<uint8_t> mask) {
  const PhiloxKey key = DropoutKey(dropout, source);
  for (size_t block = 0; block * 4 < mask.size(); ++block) {
    const PhiloxBlock draw = Philox(key, block, step);
    const size_t count = std::min<size_t>(4, mask.size() - block * 4);
    for (size_t i = 0; i < count; ++i) {
      mask[block * 4 + i] = UnitFloat(draw.word[i]) >= dropout.rate;
    }
  }
}

}  // namespace psgd
