#include "engine/cudnn/attention_pattern.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "engine/cudnn/neighbours.h"

namespace psgd::cudnn {
namespace {

class AttentionFinder {
 public:
  explicit AttentionFinder(const Graph& graph)
      : graph_(graph), neighbours_(graph), taken_(graph.nodes.size()) {}

  // The attention around a softmax.
  std::optional<AttentionPattern> Around(int softmax) {
    const Softmax& op = std::get<Softmax>(node(softmax).op);
    const TensorId scores = node(softmax).inputs[0], weights = node(softmax).outputs[0];
    const int product = neighbours_.WriterOf(scores);
    const Shape& shape = graph_.shape(scores);
    if (!IsProduct(product, false, true) || neighbours_.OnlyReaderOf(scores) != softmax ||
        shape.size() < 3 || shape.size() > 4 || (op.causal && shape.end()[-2] != shape.back()) ||
        ScaleOf(product) <= 0) {
      return std::nullopt;
    }
    // Samples have lengths, heads have none. A launch has at most so many heads.
    constexpr int64_t kMostHeads = 65535;
    if (shape.size() == 3 && (node(softmax).inputs.size() > 1 || shape[0] > kMostHeads)) {
      return std::nullopt;
    }
    AttentionPattern found = {.causal = op.causal, .scale = op.scale * ScaleOf(product)};
    if (node(softmax).inputs.size() > 1) found.lengths = node(softmax).inputs[1];
    const TensorId queries = node(product).inputs[0], keys = node(product).inputs[1];

    const int values_product = ProductOf(weights, false);
    if (!IsProduct(values_product, false, false) || ScaleOf(values_product) != 1) {
      return std::nullopt;
    }
    const TensorId values = node(values_product).inputs[1];
    found.forward = {product, softmax, values_product};
    found.forward_at = values_product;
    found.queries = WithSamples(graph_.shape(queries));
    found.keys = WithSamples(graph_.shape(keys));
    found.values = WithSamples(graph_.shape(values));
    const bool has_gradients = !AreAll(weights, {values_product});
    if (has_gradients && !AddBackward(softmax, &found)) return std::nullopt;

    // Before transposes join them.
    std::vector<int> inside = found.forward;
    inside.insert(inside.end(), found.backward.begin(), found.backward.end());
    SetInput(kQueries, queries, inside, &found);
    SetInput(kKeys, keys, inside, &found);
    SetInput(kValues, values, inside, &found);
    SetOutput(kResult, node(values_product).outputs[0], &found);
    if (!has_gradients) return found;
    const auto output = [&](size_t of) { return node(found.backward[of]).outputs[0]; };
    SetInput(kOfResult, node(found.backward[kOfValuesProduct]).inputs[1], inside, &found);
    SetOutput(kOfQueries, output(kOfQueriesProduct), &found);
    SetOutput(kOfKeys, output(kOfKeysProduct), &found);
    SetOutput(kOfValues, output(kOfValuesProduct), &found);
    return found;
  }

  // Whether a product makes its scores, perhaps with a mask or a bias added, and another reads its
  // weights, perhaps after a dropout.
  bool IsBetweenProducts(int softmax) const {
    int before = neighbours_.WriterOf(node(softmax).inputs[0]);
    while (neighbours_.Is<Reshape>(before) || neighbours_.Is<RowBias>(before) ||
           neighbours_.Is<Sum>(before) || neighbours_.Is<Activation>(before)) {
      before = neighbours_.WriterOf(node(before).inputs[0]);
    }
    return neighbours_.Is<MatMul>(before) && ReachesProduct(softmax);
  }
  bool HasGradient(int softmax) const {
    return GradientOfSoftmax(node(softmax).outputs[0]) != kNoNode;
  }

 private:
  // The places of products in AttentionPattern::backward, until it is sorted.
  static constexpr size_t kOfValuesProduct = 1, kOfQueriesProduct = 3, kOfKeysProduct = 4;

  const Node& node(int index) const { return graph_.nodes[index]; }
  bool IsProduct(int index, bool transpose_a, bool transpose_b) const {
    if (!neighbours_.Is<MatMul>(index)) return false;
    const MatMul& op = std::get<MatMul>(node(index).op);
    return op.transpose_a == transpose_a && op.transpose_b == transpose_b;
  }
  static Shape WithSamples(Shape shape) {
    if (shape.size() == 3) shape.insert(shape.begin(), 1);
    return shape;
  }
  float ScaleOf(int product) const { return std::get<MatMul>(node(product).op).scale; }

  bool ReachesProduct(int maker) const {
    return std::ranges::any_of(neighbours_.ReadersOf(node(maker).outputs[0]), [&](int reader) {
      const bool passes = neighbours_.Is<Dropout>(reader) || neighbours_.Is<Reshape>(reader);
      return neighbours_.Is<MatMul>(reader) || (passes && ReachesProduct(reader));
    });
  }
  // The product that reads the matrix as its left factor, transposed or not.
  int ProductOf(TensorId matrix, bool transposed) const {
    for (const int reader : neighbours_.ReadersOf(matrix)) {
      if (neighbours_.Is<MatMul>(reader) && node(reader).inputs[0] == matrix &&
          std::get<MatMul>(node(reader).op).transpose_a == transposed) {
        return reader;
      }
    }
    return kNoNode;
  }
  int GradientOfSoftmax(TensorId weights) const {
    for (const int reader : neighbours_.ReadersOf(weights)) {
      if (neighbours_.Is<SoftmaxBackward>(reader) && node(reader).inputs[0] == weights) {
        return reader;
      }
    }
    return kNoNode;
  }
  // Whether these nodes, each once, are all that needs the tensor.
  bool AreAll(TensorId tensor, std::vector<int> nodes) const {
    std::vector<int> readers = neighbours_.ReadersOf(tensor);
    std::ranges::sort(readers);
    std::ranges::sort(nodes);
    return readers == nodes && !graph_.tensors[tensor].external;
  }

  // False: the gradients are not those of this attention alone.
  bool AddBackward(int softmax, AttentionPattern* found) const {
    const auto [product, values_product] = std::pair(found->forward[0], found->forward_at);
    const TensorId weights = node(softmax).outputs[0];
    const int of_softmax = GradientOfSoftmax(weights), of_values = ProductOf(weights, true);
    if (of_softmax == kNoNode || !IsProduct(of_values, true, false) || ScaleOf(of_values) != 1 ||
        !AreAll(weights, {values_product, of_softmax, of_values})) {
      return false;
    }
    const TensorId of_weights = node(of_softmax).inputs[1], of_scores = node(of_softmax).outputs[0];
    const int weights_product = neighbours_.WriterOf(of_weights);
    const TensorId of_result = node(of_values).inputs[1];
    const TensorId values = node(values_product).inputs[1];
    if (!IsProduct(weights_product, false, true) || ScaleOf(weights_product) != 1 ||
        node(weights_product).inputs != std::vector{of_result, values} ||
        !AreAll(of_weights, {of_softmax})) {
      return false;
    }
    const int of_queries = ProductOf(of_scores, false), of_keys = ProductOf(of_scores, true);
    const TensorId queries = node(product).inputs[0], keys = node(product).inputs[1];
    if (!IsProduct(of_queries, false, false) || node(of_queries).inputs[1] != keys ||
        !IsProduct(of_keys, true, false) || node(of_keys).inputs[1] != queries ||
        ScaleOf(of_queries) != ScaleOf(product) || ScaleOf(of_keys) != ScaleOf(product) ||
        !AreAll(of_scores, {of_queries, of_keys})) {
      return false;
    }
    found->backward = {weights_product, of_values, of_softmax, of_queries, of_keys};
    // All read the gradient of the result, or what comes of it.
    found->backward_at = std::ranges::min(found->backward);
    return true;
  }

  // Makes the node a part of the pass if it exchanges places and heads. False: it does not, or
  // belongs to another attention.
  bool TakeTranspose(int index, std::vector<int>* pass) {
    if (!neighbours_.Is<Transpose>(index)) return false;
    const auto& order = std::get<Transpose>(node(index).op).permutation;
    if (order != std::vector{0, 2, 1, 3} && order != std::vector{1, 0, 2}) return false;
    if (std::ranges::count(*pass, index) > 0) return true;  // two operands are one tensor
    if (taken_[index]) return false;
    taken_[index] = true;
    pass->push_back(index);
    return true;
  }
  static std::vector<int>& PassOf(AttentionTensor name, AttentionPattern* found) {
    return name < kOfResult ? found->forward : found->backward;
  }
  // `inside`: the nodes that read the operands of the attention.
  void SetInput(AttentionTensor name, TensorId tensor, const std::vector<int>& inside,
                AttentionPattern* found) {
    const int transpose = neighbours_.WriterOf(tensor);
    const bool only_inside = !graph_.tensors[tensor].external &&
                             std::ranges::all_of(neighbours_.ReadersOf(tensor), [&](int reader) {
                               return std::ranges::count(inside, reader) > 0;
                             });
    const bool taken = only_inside && TakeTranspose(transpose, &PassOf(name, found));
    found->operands[name] = {taken ? node(transpose).inputs[0] : tensor, taken};
  }
  void SetOutput(AttentionTensor name, TensorId tensor, AttentionPattern* found) {
    const int transpose = neighbours_.OnlyReaderOf(tensor);
    const bool taken = TakeTranspose(transpose, &PassOf(name, found));
    found->operands[name] = {taken ? node(transpose).outputs[0] : tensor, taken};
  }

  const Graph& graph_;
  const Neighbours neighbours_;
  std::vector<bool> taken_;  // by node: transposes that an attention does
};

}  // namespace

std::vector<AttentionPattern> FindAttentions(const Graph& graph, int* others) {
  std::vector<AttentionPattern> found;
  AttentionFinder finder(graph);
  int trained = 0, untrained = 0;  // of the others
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    if (!std::holds_alternative<Softmax>(graph.nodes[i].op)) continue;
    if (auto attention = finder.Around(i)) {
      found.push_back(*std::move(attention));
    } else if (finder.IsBetweenProducts(i)) {
      ++(finder.HasGradient(i) ? trained : untrained);
    }
  }
  // The backward pass may compute one again. That copy has the gradient.
  if (others != nullptr) *others = trained > 0 ? trained : untrained;
  return found;
}

}  // namespace psgd::cudnn
