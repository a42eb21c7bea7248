// Ops on known values: shape arithmetic, masks, positions. The size of their results is limited.
#pragma once

#include <vector>

#include "common/status.h"
#include "engine/onnx/array.h"
#include "engine/onnx/importer.h"
#include "proto/onnx.pb.h"

namespace psgd::onnx {

bool Folds(const NodeProto& node);

// Omitted inputs are null. REQUIRES: Folds(node).
absl::StatusOr<std::vector<ArrayPtr>> Fold(const NodeProto& node,
                                           const std::vector<ArrayPtr>& inputs, int64_t opset);

// The result of a Shape or Size node.
absl::StatusOr<std::vector<Value>> FoldShape(const NodeProto& node, const Shape& shape);

// Converts ONNX axes, which count from the end if negative, to 0 to rank - 1. Checks that they are
// distinct.
absl::StatusOr<std::vector<int>> CheckedAxes(const std::vector<int64_t>& axes, size_t rank);

// The axes that a Reduce node adds up or otherwise joins, in order. `given`: those that it names.
// Empty: it leaves its input unchanged, or there are no axes.
absl::StatusOr<std::vector<int>> ReducedAxes(const NodeProto& node,
                                             const std::vector<int64_t>& given, size_t rank);

// The shape that a Reshape node asks for.
absl::StatusOr<Shape> ReshapedTo(const Shape& from, const std::vector<int64_t>& to,
                                 bool allow_zero);

// The part of one axis that a Slice keeps. SliceRange takes ONNX's start, end and step.
struct Range {
  int64_t begin = 0, length = 0, step = 1;
};
absl::StatusOr<Range> SliceRange(int64_t size, int64_t start, int64_t end, int64_t step);

inline constexpr int64_t kLargestFolded = int64_t{1} << 24;  // elements

// Groups of ops; each group has its own file.
struct FoldContext {
  const NodeProto& node;
  const std::vector<ArrayPtr>& inputs;
  int64_t opset;

  bool has(size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
  const Array& in(size_t i) const { return *inputs[i]; }
  // Whole numbers from input `i` (newer opsets) or from an attribute (older opsets).
  absl::StatusOr<std::vector<int64_t>> Ints(const char* attribute, size_t i,
                                            std::vector<int64_t> otherwise = {}) const;
};
using Folded = absl::StatusOr<std::vector<ArrayPtr>>;
Folded FoldElements(const FoldContext& context);  // this and the next in fold_elements.cc
bool FoldsElements(const NodeProto& node);
Folded FoldReduction(const FoldContext& context);
bool FoldsReduction(const NodeProto& node);
// The shape to which both broadcast.
absl::StatusOr<Shape> BroadcastShape(const Shape& a, const Shape& b);
// For each element of `to`, its place in `from`. REQUIRES: `from` broadcasts to `to`.
std::vector<int64_t> BroadcastSource(const Shape& from, const Shape& to);
// The elements of `array` at these places, in this shape.
ArrayPtr Pick(const Array& array, const std::vector<int64_t>& places, Shape shape);

}  // namespace psgd::onnx
