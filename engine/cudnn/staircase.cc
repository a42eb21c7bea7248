#include "engine/cudnn/staircase.h"

#include <algorithm>
#include <variant>

#include "engine/cudnn/neighbours.h"

namespace psgd::cudnn {
namespace {

class StaircaseFinder {
 public:
  explicit StaircaseFinder(const Graph& graph) : graph_(graph), neighbours_(graph) {}

  // The matrices around a softmax; none, if a reader of one needs it whole.
  std::vector<TensorId> Around(int softmax) const {
    const TensorId scores = graph_.nodes[softmax].inputs[0];
    const TensorId weights = graph_.nodes[softmax].outputs[0];
    if (!IsProductFor(softmax, scores)) return {};
    // At most one: the gradient of the softmax.
    const auto& readers = neighbours_.ReadersOf(weights);
    const auto backward = std::ranges::find_if(readers, [&](int reader) {
      return neighbours_.Is<SoftmaxBackward>(reader) && graph_.nodes[reader].inputs[0] == weights;
    });
    const int gradient = backward == readers.end() ? kNoNode : *backward;
    if (!IsOnlyLeftFactor(weights, gradient)) return {};
    if (gradient == kNoNode) return {scores, weights};
    const TensorId of_weights = graph_.nodes[gradient].inputs[1];
    const TensorId of_scores = graph_.nodes[gradient].outputs[0];
    if (!IsProductFor(gradient, of_weights) || !IsOnlyLeftFactor(of_scores, kNoNode)) return {};
    return {scores, weights, of_weights, of_scores};
  }

 private:
  // Whether a product makes the tensor, for `reader` alone.
  bool IsProductFor(int reader, TensorId tensor) const {
    return neighbours_.Is<MatMul>(neighbours_.WriterOf(tensor)) &&
           neighbours_.OnlyReaderOf(tensor) == reader;
  }
  // Whether products read it as their left factor, and nothing else does but `other`.
  bool IsOnlyLeftFactor(TensorId tensor, int other) const {
    return !graph_.tensors[tensor].external &&
           std::ranges::all_of(neighbours_.ReadersOf(tensor), [&](int reader) {
             const std::vector<TensorId>& inputs = graph_.nodes[reader].inputs;
             if (reader == other) return std::ranges::count(inputs, tensor) == 1;
             return neighbours_.Is<MatMul>(reader) && inputs[0] == tensor && inputs[1] != tensor;
           });
  }

  const Graph& graph_;
  const Neighbours neighbours_;
};

}  // namespace

std::vector<bool> FindStaircases(const Graph& graph) {
  std::vector<bool> found(graph.tensors.size());
  const StaircaseFinder finder(graph);
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const Softmax* const softmax = std::get_if<Softmax>(&graph.nodes[i].op);
    if (softmax == nullptr || !softmax->causal) continue;
    const Shape& shape = graph.shape(graph.nodes[i].inputs[0]);
    const int64_t keys = shape.back();
    if (shape[shape.size() - 2] != keys || keys % kStair != 0 || keys == kStair) continue;
    for (const TensorId tensor : finder.Around(i)) found[tensor] = true;
  }
  return found;
}

}  // namespace psgd::cudnn
