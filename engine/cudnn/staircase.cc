#include "engine/cudnn/staircase.h"

#include <algorithm>
#include <variant>

namespace psgd::cudnn {
namespace {

template <typename Op>
bool Is(const Node& node) {
  return std::holds_alternative<Op>(node.op);
}

// The nodes around each tensor.
class Neighbours {
 public:
  explicit Neighbours(const Graph& graph)
      : graph_(graph), writer_(graph.tensors.size()), readers_(graph.tensors.size()) {
    for (const Node& node : graph.nodes) {
      for (const TensorId output : node.outputs) writer_[output] = &node;
      for (const TensorId input : node.inputs) readers_[input].push_back(&node);
    }
  }

  const std::vector<const Node*>& ReadersOf(TensorId tensor) const { return readers_[tensor]; }
  bool IsProduct(TensorId tensor) const {
    return IsInside(tensor) && writer_[tensor] != nullptr && Is<MatMul>(*writer_[tensor]);
  }
  // Whether products read it as their left factor, and nothing else does but `other`.
  bool OnlyLeftFactor(TensorId tensor, const Node* other) const {
    return IsInside(tensor) && std::ranges::all_of(readers_[tensor], [&](const Node* reader) {
             if (reader == other) return std::ranges::count(reader->inputs, tensor) == 1;
             return Is<MatMul>(*reader) && reader->inputs[0] == tensor &&
                    reader->inputs[1] != tensor;
           });
  }

 private:
  bool IsInside(TensorId tensor) const { return !graph_.tensors[tensor].external; }

  const Graph& graph_;
  std::vector<const Node*> writer_;
  std::vector<std::vector<const Node*>> readers_;
};

}  // namespace

std::vector<bool> FindStaircases(const Graph& graph) {
  std::vector<bool> found(graph.tensors.size());
  const Neighbours neighbours(graph);
  const auto only_reader = [&](TensorId tensor, const Node& node) {
    return std::ranges::all_of(neighbours.ReadersOf(tensor),
                               [&](const Node* reader) { return reader == &node; });
  };
  for (const Node& node : graph.nodes) {
    const Softmax* const softmax = std::get_if<Softmax>(&node.op);
    if (softmax == nullptr || !softmax->causal) continue;
    const TensorId scores = node.inputs[0], weights = node.outputs[0];
    const Shape& shape = graph.shape(scores);
    const int64_t keys = shape.back();
    if (shape[shape.size() - 2] != keys || keys % kStair != 0 || keys == kStair) continue;
    if (!neighbours.IsProduct(scores) || !only_reader(scores, node)) continue;
    // At most one: the gradient of the softmax.
    const auto& readers = neighbours.ReadersOf(weights);
    const auto backward = std::ranges::find_if(readers, [&](const Node* reader) {
      return Is<SoftmaxBackward>(*reader) && reader->inputs[0] == weights;
    });
    const Node* const gradient = backward == readers.end() ? nullptr : *backward;
    if (!neighbours.OnlyLeftFactor(weights, gradient)) continue;
    std::vector<TensorId> all = {scores, weights};
    if (gradient != nullptr) {
      const TensorId of_weights = gradient->inputs[1], of_scores = gradient->outputs[0];
      if (!neighbours.IsProduct(of_weights) || !only_reader(of_weights, *gradient) ||
          !neighbours.OnlyLeftFactor(of_scores, nullptr)) {
        continue;
      }
      all.insert(all.end(), {of_weights, of_scores});
    }
    for (const TensorId tensor : all) found[tensor] = true;
  }
  return found;
}

}  // namespace psgd::cudnn
