#include "engine/ops/axis_map.h"

#include <algorithm>

#include "engine/ops/rules.h"

namespace psgd {

AxisMatrix TakingRows(const std::vector<int64_t>& index, int64_t columns) {
  AxisMatrix matrix = {.columns = columns};
  for (int64_t column : index) {
    matrix.Add(column, 1);
    matrix.EndRow();
  }
  return matrix;
}

AxisMatrix AddingRow(int64_t columns, float weight) {
  AxisMatrix matrix = {.columns = columns};
  for (int64_t column = 0; column < columns; ++column) matrix.Add(column, weight);
  matrix.EndRow();
  return matrix;
}

AxisMatrix Transposed(const AxisMatrix& matrix) {
  AxisMatrix made = {.columns = matrix.rows()};
  made.first.assign(static_cast<size_t>(matrix.columns) + 1, 0);
  for (int32_t source : matrix.source) ++made.first[source + 1];
  for (int64_t i = 0; i < matrix.columns; ++i) made.first[i + 1] += made.first[i];
  std::vector<int32_t> next(made.first.begin(), made.first.end() - 1);
  made.source.resize(matrix.source.size());
  made.weight.resize(matrix.source.size());
  for (int64_t row = 0; row < matrix.rows(); ++row) {
    for (int32_t k = matrix.first[row]; k < matrix.first[row + 1]; ++k) {
      const int32_t place = next[matrix.source[k]]++;
      made.source[place] = static_cast<int32_t>(row);
      made.weight[place] = matrix.weight[k];
    }
  }
  return made;
}

absl::StatusOr<TensorId> AddAxisMap(Graph* graph, const std::string& name, int axis,
                                    AxisMatrix matrix, TensorId x) {
  Shape shape = graph->shape(x);
  const bool has_axis = axis >= 0 && axis < static_cast<int>(shape.size());
  if (!has_axis || matrix.columns != shape[axis] || matrix.rows() < 1 ||
      std::any_of(matrix.source.begin(), matrix.source.end(),
                  [&](int32_t source) { return source < 0 || source >= matrix.columns; })) {
    return InvalidArgumentError(name, ": a matrix of ", matrix.rows(), "x", matrix.columns,
                                " does not fit axis ", axis, " of ", ShapeText(shape));
  }
  shape[axis] = matrix.rows();
  const AxisMap op = {axis, std::make_shared<const AxisMatrix>(std::move(matrix))};
  return graph->AddResult(name, op, {x}, shape);
}

void AddGradient(const AxisMap& op, const Node& node, GradientTape* tape) {
  const AxisMap transposed = {op.axis, std::make_shared<const AxisMatrix>(Transposed(*op.matrix))};
  tape->AddBackward(node, transposed, {tape->Gradient(node.outputs[0])}, node.inputs[0]);
}

}  // namespace psgd
