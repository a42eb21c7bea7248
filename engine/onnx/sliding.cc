#include "engine/onnx/sliding.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/onnx/attributes.h"
#include "engine/ops/rules.h"

namespace psgd::onnx {
namespace {

// Padding of both sides together for auto_pad SAME, which makes size / stride outputs.
int64_t SameAxis(int64_t size, int kernel, int stride, int dilation) {
  const int64_t out = (size + stride - 1) / stride;
  return std::max<int64_t>(0, (out - 1) * stride + int64_t{dilation} * (kernel - 1) + 1 - size);
}

}  // namespace

absl::StatusOr<Extent> SlidingPair(const OpContext& c, const char* name,
                                   const std::vector<int64_t>& given, size_t at, int64_t least) {
  if (given.size() < at + 2 || given[at] < least || given[at + 1] < least ||
      given[at] > kLargestWindow || given[at + 1] > kLargestWindow) {
    return c.Unsupported(
        absl::StrCat(name, " is not a height and a width in range (images have four axes)"));
  }
  return Extent(static_cast<int>(given[at]), static_cast<int>(given[at + 1]));
}

absl::StatusOr<Sliding> WindowOf(const OpContext& c, TensorId x,
                                 const std::vector<int64_t>& kernel) {
  const Shape in = c.graph()->shape(x);
  if (in.size() != 4)
    return c.Unsupported(absl::StrCat("works on ", ShapeText(in), "; psgd takes N C H W"));
  Sliding sliding = {.x = x};
  Window& w = sliding.window;
  PSGD_ASSIGN_OR_RETURN(w.kernel, SlidingPair(c, "kernel_shape", kernel, 0, 1));
  const std::vector<int64_t> strides = IntsAttribute(c.node, "strides", {1, 1});
  PSGD_ASSIGN_OR_RETURN(w.stride, SlidingPair(c, "strides", strides, 0, 1));
  const std::vector<int64_t> dilations = IntsAttribute(c.node, "dilations", {1, 1});
  PSGD_ASSIGN_OR_RETURN(w.dilation, SlidingPair(c, "dilations", dilations, 0, 1));
  const std::vector<int64_t> pads = IntsAttribute(c.node, "pads", {0, 0, 0, 0});
  PSGD_ASSIGN_OR_RETURN(sliding.before, SlidingPair(c, "pads", pads, 0, 0));
  PSGD_ASSIGN_OR_RETURN(sliding.after, SlidingPair(c, "pads", pads, 2, 0));
  sliding.automatic = TextAttribute(c.node, "auto_pad", "NOTSET");
  for (const char* known : {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}) {
    if (sliding.automatic == known) return sliding;
  }
  return c.Unsupported("auto_pad " + SafeName(sliding.automatic));
}

absl::StatusOr<Sliding> Slide(const OpContext& c, TensorId x, const std::vector<int64_t>& kernel,
                              float outside) {
  PSGD_ASSIGN_OR_RETURN(Sliding sliding, WindowOf(c, x, kernel));
  Window& w = sliding.window;
  Extent &before = sliding.before, &after = sliding.after;
  if (sliding.automatic.starts_with("SAME")) {
    const Shape in = c.graph()->shape(x);
    const int64_t high = SameAxis(in[2], w.kernel.height, w.stride.height, w.dilation.height);
    const int64_t wide = SameAxis(in[3], w.kernel.width, w.stride.width, w.dilation.width);
    const int extra = sliding.automatic == "SAME_LOWER" ? 1 : 0;
    before = Extent(static_cast<int>((high + extra) / 2), static_cast<int>((wide + extra) / 2));
    after = Extent(static_cast<int>(high) - before.height, static_cast<int>(wide) - before.width);
  } else if (sliding.automatic == "VALID") {
    before = after = 0;
  }
  if (before == after) {
    w.pad = before;
    return sliding;
  }
  PSGD_ASSIGN_OR_RETURN(sliding.x, AddPad(c.graph(), c.name + ".padded",
                                          {{0, 0, before.height, before.width}, outside},
                                          {0, 0, after.height, after.width}, x));
  return sliding;
}

}  // namespace psgd::onnx
