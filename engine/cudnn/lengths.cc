#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

// Integers use the memory of a plain float tensor, which is never converted.
void Lower(const Lengths& op, const Context& c) {
  Lowering& l = c.lowering;
  const Shape shape = l.shape(c.in(0));
  const BufferId tokens = l.Native(c.in(0)).buffer, lengths = l.Put(c.out(0), kPlainFloat).buffer;
  l.Run(LengthsOfRows, op, shape[0], shape[1], tokens, lengths);
}

}  // namespace psgd::cudnn
