// Windows that slide over images, as convolutions and pools of ONNX files have them.
#pragma once

#include <vector>

#include "engine/onnx/importer.h"

namespace psgd::onnx {

// The largest side of a window, step or padding that is believed.
inline constexpr int64_t kLargestWindow = 1 << 16;

struct Sliding {
  Window window;
  TensorId x = kNoTensor;  // padded first where the sides differ; the window has no padding then
  Extent before = 0, after = 0;  // the padding that the node asks for
};

// The window of the node's attributes over x; `outside` is what padding holds.
absl::StatusOr<Sliding> Slide(const OpContext& c, TensorId x, const std::vector<int64_t>& kernel,
                              float outside);

// A height and a width, from `given[at]` on; an error that names them where they are out of range.
absl::StatusOr<Extent> SlidingPair(const OpContext& c, const char* name,
                                   const std::vector<int64_t>& given, size_t at, int64_t least);

}  // namespace psgd::onnx
