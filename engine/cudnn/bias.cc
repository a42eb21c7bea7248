#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

void Lower(const Bias&, const Context& c) {
  Lowering& l = c.lowering;
  const Shape& shape = l.shape(c.in(0));
  const View x = l.GetAsWritten(c.in(0)), bias = l.Get(c.in(1), kPlainFloat);
  const View y = l.Put(c.out(0), x.format);
  const int64_t count = ElementCount(shape), channels = shape[1];
  const bool last = x.format.layout == Layout::kChannelsLast;
  const int64_t inner = last ? 1 : count / (shape[0] * channels);
  l.Run(AddBias, l.type(), count, channels, inner, x, bias, y);
}

// The result is sums of columns, in a layout in which each channel is a column.
void Lower(const BiasBackward&, const Context& c) {
  Lowering& l = c.lowering;
  const Shape& shape = l.shape(c.in(0));
  const int64_t count = ElementCount(shape), channels = shape[1], rows = count / channels;
  const View dy = l.GetUsual(c.in(0));
  const ImageShape image = {shape[0], channels, rows / shape[0]};
  BufferId columns = dy.buffer;
  if (dy.format.layout == Layout::kPlain && image.area > 1) {
    columns = l.Temporary(static_cast<size_t>(count) * TypeBytes(l.type()));
    l.Run(Convert, image, dy, l.PlainFormat(), columns, Format{Layout::kChannelsLast, l.type()});
  }
  PutColumnSums(c, rows, channels, columns, c.out(0));
}

}  // namespace psgd::cudnn
