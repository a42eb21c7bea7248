#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {
namespace {

PoolShape ShapeOf(const Window& window, const Shape& x, const Shape& y) {
  return {.images = x[0],
          .channels = x[1],
          .height = x[2],
          .width = x[3],
          .out_height = y[2],
          .out_width = y[3],
          .kernel_height = window.kernel.height,
          .kernel_width = window.kernel.width,
          .stride_height = window.stride.height,
          .stride_width = window.stride.width,
          .pad_height = window.pad.height,
          .pad_width = window.pad.width};
}

}  // namespace

void Lower(const Pool& op, const Context& c) {
  Lowering& l = c.lowering;
  const PoolShape shape = ShapeOf(op.window, l.shape(c.in(0)), l.shape(c.out(0)));
  const View x = l.GetUsual(c.in(0)), y = l.PutUsual(c.out(0));
  if (op.kind == Pool::Kind::kAverage) {
    l.Run(AveragePoolForward, l.type(), shape, x, y);
    return;
  }
  constexpr int64_t kMostPlaces = 65536;  // a place is a uint16
  if (shape.kernel_height * shape.kernel_width > kMostPlaces) {
    return l.Refuse(absl::UnimplementedError("a max pool's window has more than 65536 places"));
  }
  const BufferId where = l.PutOpaque(c.out(1), l.elements(c.out(0)) * sizeof(uint16_t));
  l.Run(MaxPoolForward, l.type(), shape, x, y, where);
}

void Lower(const PoolBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const PoolShape shape = ShapeOf(op.forward.window, l.shape(c.out(0)), l.shape(c.in(0)));
  const View dy = l.GetUsual(c.in(0)), dx = l.PutUsual(c.out(0));
  if (op.forward.kind == Pool::Kind::kAverage) {
    l.Run(AveragePoolGradient, l.type(), shape, dy, dx);
    return;
  }
  const BufferId where = l.Opaque(c.in(1));
  l.Run(MaxPoolGradient, l.type(), shape, dy, where, dx);
}

}  // namespace psgd::cudnn
