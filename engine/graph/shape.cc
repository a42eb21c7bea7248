#include "engine/graph/shape.h"

#include "absl/strings/str_join.h"

namespace psgd {
namespace {

// -1 when the kernel does not fit.
int64_t SlideOverAxis(int64_t size, int kernel, int stride, int pad, int dilation) {
  const int64_t room = size + 2 * int64_t{pad} - (int64_t{dilation} * (kernel - 1) + 1);
  return room < 0 ? -1 : room / stride + 1;
}

}  // namespace

int64_t ElementCount(const Shape& shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return count;
}

bool TooLarge(const Shape& shape) {
  constexpr int64_t kLargest = int64_t{1} << 31;
  int64_t count = 1;
  for (int64_t size : shape) {
    if (size < 1 || __builtin_mul_overflow(count, size, &count) || count > kLargest) return true;
  }
  return false;
}

std::string ShapeText(const Shape& shape) {
  return shape.empty() ? "scalar" : absl::StrJoin(shape, "x");
}

absl::StatusOr<Extent> SlideOver(const Window& window, int64_t height, int64_t width) {
  const Window& w = window;
  const bool sane = w.kernel.height > 0 && w.kernel.width > 0 && w.stride.height > 0 &&
                    w.stride.width > 0 && w.dilation.height > 0 && w.dilation.width > 0 &&
                    w.pad.height >= 0 && w.pad.width >= 0;
  if (!sane) return absl::InvalidArgumentError("kernel, stride and dilation must be at least 1");
  const int64_t out_height =
      SlideOverAxis(height, w.kernel.height, w.stride.height, w.pad.height, w.dilation.height);
  const int64_t out_width =
      SlideOverAxis(width, w.kernel.width, w.stride.width, w.pad.width, w.dilation.width);
  if (out_height < 1 || out_width < 1) {
    return InvalidArgumentError("a ", w.kernel.height, "x", w.kernel.width,
                                " kernel does not fit a ", height, "x", width,
                                " image with padding ", w.pad.height, "x", w.pad.width);
  }
  return Extent(static_cast<int>(out_height), static_cast<int>(out_width));
}

}  // namespace psgd
