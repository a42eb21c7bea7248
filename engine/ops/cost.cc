#include "engine/ops/cost.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <typeinfo>
#include <variant>

#include "absl/strings/strip.h"

namespace psgd {
namespace {

// The shapes of one node's tensors.
class Shapes {
 public:
  Shapes(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}
  const Shape& in(size_t i) const { return graph_.shape(node_.inputs[i]); }
  const Shape& out(size_t i) const { return graph_.shape(node_.outputs[i]); }
  size_t outs() const { return node_.outputs.size(); }

 private:
  const Graph& graph_;
  const Node& node_;
};

double Elements(const Shape& shape) { return static_cast<double>(ElementCount(shape)); }
// The elements of one index of the first axis, such as the weights of one output channel.
double ElementsEach(const Shape& shape) { return Elements(shape) / static_cast<double>(shape[0]); }

template <typename AnyOp>
double Products(const AnyOp&, const Shapes&) {
  return 0;
}
double Products(const Conv2d&, const Shapes& s) {
  return Elements(s.out(0)) * ElementsEach(s.in(1));
}
double Products(const Conv2dBackwardData&, const Shapes& s) {
  return Elements(s.in(1)) * ElementsEach(s.in(0));
}
double Products(const Conv2dBackwardWeights&, const Shapes& s) {
  return Elements(s.in(1)) * ElementsEach(s.out(0));
}
double Products(const Dense&, const Shapes& s) {
  return Elements(s.out(0)) * ElementsEach(s.in(1));
}
double Products(const DenseBackwardData&, const Shapes& s) {
  return Elements(s.in(1)) * ElementsEach(s.in(0));
}
double Products(const DenseBackwardWeights&, const Shapes& s) {
  return Elements(s.in(1)) * ElementsEach(s.out(0));
}
double Products(const MatMul& op, const Shapes& s) {
  const Shape& a = s.in(0);
  return Elements(s.out(0)) * static_cast<double>(a[a.size() - (op.transpose_a ? 2 : 1)]);
}
double Products(const Recurrent&, const Shapes& s) {
  const double steps = static_cast<double>(s.in(0)[0] * s.in(0)[1]);
  return steps * (Elements(s.in(1)) + Elements(s.in(2)));
}
// The gradients of both weights, of h, and of x where it is wanted.
double Products(const RecurrentBackward&, const Shapes& s) {
  const double steps = static_cast<double>(s.in(0)[0] * s.in(0)[1]);
  const double of_x = Elements(s.in(1)), of_h = Elements(s.in(2));
  return steps * (of_x + 2 * of_h + (s.outs() > 4 ? of_x : 0));
}

double BytesEach(const Tensor& tensor, size_t real_bytes) {
  switch (tensor.element) {
    case Element::kReal:
      return tensor.external ? sizeof(float) : static_cast<double>(real_bytes);
    case Element::kInt32:
      return sizeof(int32_t);
    case Element::kDouble:
      return sizeof(double);
    case Element::kOpaque:
      return 0;  // only the backend knows its size
  }
  return 0;
}

}  // namespace

double BytesOf(const Graph& graph, std::span<const TensorId> tensors, size_t real_bytes) {
  double bytes = 0;
  for (const TensorId id : tensors) {
    if (id == kNoTensor) continue;
    const Tensor& tensor = graph.tensors[id];
    bytes += Elements(tensor.shape) * BytesEach(tensor, real_bytes);
  }
  return bytes;
}

OpCost CostOf(const Graph& graph, const Node& node, size_t real_bytes) {
  OpCost cost;
  cost.bytes = BytesOf(graph, node.inputs, real_bytes) + BytesOf(graph, node.outputs, real_bytes);
  const Shapes shapes(graph, node);
  if (std::holds_alternative<Embedding>(node.op)) {
    const Tensor& table = graph.tensors[node.inputs[1]];
    const double read = Elements(shapes.in(0)) * ElementsEach(table.shape);
    cost.bytes += (read - Elements(table.shape)) * BytesEach(table, real_bytes);
  }
  cost.flops = 2 * std::visit([&](const auto& op) { return Products(op, shapes); }, node.op);
  return cost;
}

std::string OpName(const Op& op) {
  return std::visit(
      [](const auto& one) {
        int failed = 0;
        const std::unique_ptr<char, decltype(&std::free)> name(
            abi::__cxa_demangle(typeid(one).name(), nullptr, nullptr, &failed), &std::free);
        return std::string(absl::StripPrefix(failed == 0 ? name.get() : "op", "psgd::"));
      },
      op);
}

}  // namespace psgd
