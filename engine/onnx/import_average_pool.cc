// Average pools. The engine divides by the window's size. If a file divides by another count, each
// place is multiplied by a correction.
#include <algorithm>

#include "engine/onnx/attributes.h"
#include "engine/onnx/sliding.h"
#include "engine/ops/rules.h"

namespace psgd::onnx {
namespace {

struct Axis {
  int64_t size;  // of the image
  int64_t before, after;
  int64_t kernel, stride, dilation;
  int64_t reach() const { return dilation * (kernel - 1) + 1; }
  int64_t padded() const { return before + size + after; }
};

// The number of windows. With `ceil` a last window that lies partly over the image counts, unless
// it begins behind the image.
int64_t Windows(const Axis& axis, bool ceil) {
  const int64_t way = axis.padded() - axis.reach();
  if (!ceil) return way / axis.stride + 1;
  const int64_t windows = (way + axis.stride - 1) / axis.stride + 1;
  return (windows - 1) * axis.stride >= axis.before + axis.size ? windows - 1 : windows;
}

// For each window, its size divided by the number of elements that count. These are elements of the
// image and, with `padding`, of the file's padding, but not elements behind it.
std::vector<float> Shares(const Axis& axis, int64_t windows, bool padding) {
  const int64_t first = padding ? 0 : axis.before;
  const int64_t last = padding ? axis.padded() : axis.before + axis.size;
  std::vector<float> shares;
  for (int64_t w = 0; w < windows; ++w) {
    // The number of the window's elements before a place.
    const auto before = [&](int64_t place) {
      const int64_t way = std::max<int64_t>(0, place - w * axis.stride);
      return std::min(axis.kernel, (way + axis.dilation - 1) / axis.dilation);
    };
    const int64_t counted = before(last) - before(first);
    shares.push_back(counted > 0 ? static_cast<float>(axis.kernel) / static_cast<float>(counted)
                                 : 0);
  }
  return shares;
}

}  // namespace

Imported ImportAveragePool(const OpContext& c) {
  PSGD_ASSIGN_OR_RETURN(const TensorId x, c.Tensor(0));
  PSGD_ASSIGN_OR_RETURN(Sliding sliding, Slide(c, x, IntsAttribute(c.node, "kernel_shape"), 0));
  const Window w = sliding.window;
  const Shape in = c.graph()->shape(x);
  const Axis high = {in[2],           sliding.before.height, sliding.after.height,
                     w.kernel.height, w.stride.height,       w.dilation.height};
  const Axis wide = {in[3],          sliding.before.width, sliding.after.width,
                     w.kernel.width, w.stride.width,       w.dilation.width};
  if (high.padded() < high.reach() || wide.padded() < wide.reach()) {
    return absl::InvalidArgumentError("its window is larger than the image");
  }
  const bool ceil = IntAttribute(c.node, "ceil_mode", 0) != 0;
  const bool padding = IntAttribute(c.node, "count_include_pad", 0) != 0;
  const int64_t rows = Windows(high, ceil), columns = Windows(wide, ceil);
  const auto beyond = [](const Axis& axis, int64_t windows) {
    const int64_t end = (windows - 1) * axis.stride + axis.reach();
    return static_cast<int>(std::max<int64_t>(0, end - axis.padded()));
  };
  const Extent more(beyond(high, rows), beyond(wide, columns));
  if (more != Extent(0)) {
    PSGD_ASSIGN_OR_RETURN(sliding.x, AddPad(c.graph(), c.name + ".beyond", {{0, 0, 0, 0}, 0},
                                            {0, 0, more.height, more.width}, sliding.x));
  }
  PSGD_ASSIGN_OR_RETURN(TensorId y,
                        AddPool(c.graph(), c.name, {Pool::Kind::kAverage, w}, sliding.x));
  const std::vector<float> down = Shares(high, rows, padding),
                           across = Shares(wide, columns, padding);
  const auto whole = [](float share) { return share == 1; };
  if (!std::ranges::all_of(down, whole) || !std::ranges::all_of(across, whole)) {
    const Shape out = c.graph()->shape(y);
    PSGD_RETURN_IF_ERROR(c.importer.Spend(ElementCount(out)));
    std::vector<float> factors;
    factors.reserve(static_cast<size_t>(ElementCount(out)));
    for (int64_t image = 0; image < out[0] * out[1]; ++image) {
      for (float row : down) {
        for (float column : across) factors.push_back(row * column);
      }
    }
    PSGD_ASSIGN_OR_RETURN(const TensorId shares,
                          c.importer.MakeConstant(c.name + ".shares", out, std::move(factors)));
    PSGD_ASSIGN_OR_RETURN(y, AddMul(c.graph(), c.name + ".counted", y, shares));
  }
  return std::vector<Value>{c.Like(y)};
}

}  // namespace psgd::onnx
