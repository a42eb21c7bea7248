// Values of an ONNX file, or computed from it: weights, shapes, masks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/status.h"
#include "engine/graph/shape.h"
#include "proto/onnx.pb.h"

namespace psgd::onnx {

// Row-major. A shape with a zero is an empty array.
struct Array {
  enum class Kind { kReal, kInt, kBool };
  Kind kind = Kind::kReal;
  Shape shape;
  std::vector<float> reals;   // for kReal
  std::vector<int64_t> ints;  // for kInt and kBool

  bool real() const { return kind == Kind::kReal; }
  int64_t count() const { return static_cast<int64_t>(real() ? reals.size() : ints.size()); }
};
using ArrayPtr = std::shared_ptr<const Array>;

ArrayPtr MakeInts(Shape shape, std::vector<int64_t> values, Array::Kind kind = Array::Kind::kInt);
ArrayPtr MakeReals(Shape shape, std::vector<float> values);

// Reads the tensor's values, of any type that psgd knows. An error says what is wrong with the
// tensor. Sizes are checked against the number of bytes before use.
absl::StatusOr<ArrayPtr> ReadArray(const TensorProto& tensor);

// The element count of an untrusted shape. An error if it is negative or above `limit`.
absl::StatusOr<int64_t> CheckedCount(const Shape& shape, int64_t limit);

}  // namespace psgd::onnx
