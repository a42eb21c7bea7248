// Values that an ONNX file holds or that follow from it: weights, shapes, masks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/status.h"
#include "engine/graph/shape.h"
#include "proto/onnx.pb.h"

namespace psgd::onnx {

// Row-major. A shape may hold zeros: an empty array.
struct Array {
  enum class Kind { kReal, kInt, kBool };
  Kind kind = Kind::kReal;
  Shape shape;
  std::vector<float> reals;   // of kReal
  std::vector<int64_t> ints;  // of kInt and kBool

  bool real() const { return kind == Kind::kReal; }
  int64_t count() const { return static_cast<int64_t>(real() ? reals.size() : ints.size()); }
};
using ArrayPtr = std::shared_ptr<const Array>;

ArrayPtr MakeInts(Shape shape, std::vector<int64_t> values, Array::Kind kind = Array::Kind::kInt);
ArrayPtr MakeReals(Shape shape, std::vector<float> values);

// The tensor's values, of any type that psgd reads. An error says what is wrong with it; no size in
// it is believed before the bytes are counted.
absl::StatusOr<ArrayPtr> ReadArray(const TensorProto& tensor);

// The element count of a shape that may come from anywhere; an error when it is negative or beyond
// `limit`.
absl::StatusOr<int64_t> CheckedCount(const Shape& shape, int64_t limit);

}  // namespace psgd::onnx
