// Ops on known values: shape arithmetic, masks, positions. Their results are bounded in size,
// whatever a file asks for.
#pragma once

#include <vector>

#include "common/status.h"
#include "engine/onnx/array.h"
#include "engine/onnx/importer.h"
#include "proto/onnx.pb.h"

namespace psgd::onnx {

bool Folds(const NodeProto& node);

// REQUIRES: Folds(node). Inputs that are left out are null.
absl::StatusOr<std::vector<ArrayPtr>> Fold(const NodeProto& node,
                                           const std::vector<ArrayPtr>& inputs, int64_t opset);

// Of a Shape or Size node.
absl::StatusOr<std::vector<Value>> FoldShape(const NodeProto& node, const Shape& shape);

// Axes as ONNX counts them, from the end when negative, made 0 to rank - 1 and held to be distinct.
absl::StatusOr<std::vector<int>> CheckedAxes(const std::vector<int64_t>& axes, size_t rank);

// The shape that a Reshape node asks for.
absl::StatusOr<Shape> ReshapedTo(const Shape& from, const std::vector<int64_t>& to,
                                 bool allow_zero);

// One axis of a Slice: from, to, step as in ONNX; what it leaves.
struct Range {
  int64_t begin = 0, length = 0, step = 1;
};
absl::StatusOr<Range> SliceRange(int64_t size, int64_t start, int64_t end, int64_t step);

inline constexpr int64_t kLargestFolded = int64_t{1} << 24;  // elements

// Groups of ops, by file.
struct FoldContext {
  const NodeProto& node;
  const std::vector<ArrayPtr>& inputs;
  int64_t opset;

  bool has(size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
  const Array& in(size_t i) const { return *inputs[i]; }
};
using Folded = absl::StatusOr<std::vector<ArrayPtr>>;
Folded FoldElements(const FoldContext& context);  // of fold_elements.cc
bool FoldsElements(const NodeProto& node);
// The shape that both broadcast to.
absl::StatusOr<Shape> BroadcastShape(const Shape& a, const Shape& b);
// Where in `from` each element of `to` comes from. REQUIRES: `from` broadcasts to `to`.
std::vector<int64_t> BroadcastSource(const Shape& from, const Shape& to);
// Elements of `array` at these places, in this shape.
ArrayPtr Pick(const Array& array, const std::vector<int64_t>& places, Shape shape);

}  // namespace psgd::onnx
