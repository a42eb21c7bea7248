// Broadcasting, and sums over axes, of tensors in the graph.
#pragma once

#include <vector>

#include "engine/onnx/importer.h"

namespace psgd::onnx {

inline constexpr float kMasked = -9999;  // exp of this or less is zero beside any score

// Whether `end` are the last axes of `shape`.
bool EndsWith(const Shape& shape, const Shape& end);
// The shape to which both broadcast.
absl::StatusOr<Shape> TogetherShape(const Shape& a, const Shape& b);
// The shape with leading ones, so that it has `rank` axes.
Shape WithRank(Shape shape, size_t rank);
// An error if both hold the batch, in axes that do not meet: each sample would meet all others.
absl::Status SamplesStayApart(const OpContext& c, const Value& a, const Value& b);
// Value::outer of `value` after it is spread to `shape`.
int64_t OuterAfterSpread(const OpContext& c, const Value& value, const Shape& shape);

// Repeats x along axes of one element. An error: x does not broadcast to `shape`.
absl::StatusOr<TensorId> Spread(const OpContext& c, TensorId x, Shape shape);

// Two values as tensors of the shape to which both broadcast.
struct Pair {
  TensorId a = kNoTensor, b = kNoTensor;
  int64_t outer = kNoBatch;
};
absl::StatusOr<Pair> SpreadTogether(const OpContext& c, const Value& a, const Value& b);

enum class Reduction { kSum, kMean, kMax };
// Reduces the axes to one element each. The axes stay.
absl::StatusOr<TensorId> Reduce(const OpContext& c, Reduction reduction, std::vector<int> axes,
                                TensorId x);

}  // namespace psgd::onnx
