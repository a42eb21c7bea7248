#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

void Lower(const KeepLargest& op, const Context& c) {
  Lowering& l = c.lowering;
  const Shape& shape = l.shape(c.in(0));
  const int64_t rows = shape[0], columns = shape[1];
  const View x = l.Get(c.in(0), l.PlainFormat()), y = l.Put(c.out(0), l.PlainFormat());
  l.Run(KeepLargestOfRows, l.type(), op, rows, columns, x, y);
}

}  // namespace psgd::cudnn
