#include "engine/ops/matmul.h"

#include <algorithm>

#include "engine/ops/rules.h"

namespace psgd {
namespace {

// The size of a matrix as it is multiplied.
struct MatrixSize {
  int64_t rows, columns;
};
MatrixSize SizeOf(const Shape& shape, bool transposed) {
  const int64_t before = shape[shape.size() - 2], last = shape.back();
  return transposed ? MatrixSize{last, before} : MatrixSize{before, last};
}

}  // namespace

absl::StatusOr<TensorId> AddMatMul(Graph* graph, const std::string& name, const MatMul& op,
                                   TensorId a, TensorId b) {
  const Shape &left = graph->shape(a), &right = graph->shape(b);
  if (left.size() < 2 || left.size() != right.size() ||
      !std::equal(left.begin(), left.end() - 2, right.begin()) ||
      SizeOf(left, op.transpose_a).columns != SizeOf(right, op.transpose_b).rows) {
    return InvalidArgumentError(name, ": cannot multiply ", ShapeText(left),
                                op.transpose_a ? " transposed" : "", " and ", ShapeText(right),
                                op.transpose_b ? " transposed" : "");
  }
  Shape shape = left;
  shape[shape.size() - 2] = SizeOf(left, op.transpose_a).rows;
  shape.back() = SizeOf(right, op.transpose_b).columns;
  return graph->AddResult(name, op, {a, b}, std::move(shape));
}

// y = s A B gives dA = s dy B^T and dB = s A^T dy. If a is A^T, its gradient is dA transposed.
void AddGradient(const MatMul& op, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  const TensorId a = node.inputs[0], b = node.inputs[1];
  if (tape->Wanted(a)) {
    const bool flip = op.transpose_a;
    tape->AddBackward(
        node,
        flip ? MatMul{op.transpose_b, true, op.scale} : MatMul{false, !op.transpose_b, op.scale},
        flip ? std::vector<TensorId>{b, dy} : std::vector<TensorId>{dy, b}, a, ".backward_left");
  }
  if (tape->Wanted(b)) {
    const bool flip = op.transpose_b;
    tape->AddBackward(
        node,
        flip ? MatMul{true, op.transpose_a, op.scale} : MatMul{!op.transpose_a, false, op.scale},
        flip ? std::vector<TensorId>{dy, a} : std::vector<TensorId>{a, dy}, b, ".backward_right");
  }
}

}  // namespace psgd
