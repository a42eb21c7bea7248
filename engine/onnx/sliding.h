// Windows of ONNX convolutions and pools, which slide over images.
#pragma once

#include <string>
#include <vector>

#include "engine/onnx/importer.h"

namespace psgd::onnx {

// The largest side of a window, step or padding that is accepted.
inline constexpr int64_t kLargestWindow = 1 << 16;

struct Sliding {
  Window window;
  TensorId x = kNoTensor;  // padded already if the sides differ; then the window has no padding
  Extent before = 0, after = 0;  // the node's padding
  std::string automatic = {};    // auto_pad
};

// The window of the node's attributes, with the padding that `pads` says.
absl::StatusOr<Sliding> WindowOf(const OpContext& c, TensorId x,
                                 const std::vector<int64_t>& kernel);

// WindowOf, padded also as auto_pad says. `outside`: the value of padding.
absl::StatusOr<Sliding> Slide(const OpContext& c, TensorId x, const std::vector<int64_t>& kernel,
                              float outside);

// A height and a width from `given[at]` on. If they are out of range, the error contains `name`.
absl::StatusOr<Extent> SlidingPair(const OpContext& c, const char* name,
                                   const std::vector<int64_t>& given, size_t at, int64_t least);

}  // namespace psgd::onnx
