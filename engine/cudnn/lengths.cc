#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

// Integers use the memory of a plain float tensor, which is never converted.
void Lower(const Lengths& op, const Context& c) {
  Lowering& l = c.lowering;
  const Shape shape = l.shape(c.in(0));
  const BufferId tokens = l.Native(c.in(0)).buffer, lengths = l.Put(c.out(0), kPlainFloat).buffer;
  l.CallKernel([=, stream = l.stream()](const Buffers& b, const Step&) {
    return LengthsOfRows(stream, op, shape[0], shape[1], static_cast<const int32_t*>(b[tokens]),
                         static_cast<int32_t*>(b[lengths]));
  });
}

}  // namespace psgd::cudnn
