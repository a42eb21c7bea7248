#include <optional>

#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

void Lower(const Select& op, const Context& c) {
  Lowering& l = c.lowering;
  const View condition = l.GetAsWritten(c.in(0));
  const auto branch = [&](const std::optional<float>& number, int place) {
    return number ? kNoBuffer : l.Get(c.in(place), condition.format).buffer;
  };
  const BufferId a = branch(op.a, op.place_of_a()), b = branch(op.b, op.place_of_b());
  const View y = l.Put(c.out(0), condition.format);
  Select made = op;
  for (std::optional<float>* number : {&made.a, &made.b}) {
    if (*number) *number = l.KeptFinite(**number);
  }
  l.CallKernel([=, stream = l.stream(), type = l.type(), count = l.elements(c.out(0))](
                   const Buffers& buffers, const Step&) {
    return SelectElements(stream, type, made, count, buffers[condition.buffer],
                          a == kNoBuffer ? nullptr : buffers[a],
                          b == kNoBuffer ? nullptr : buffers[b], buffers[y.buffer]);
  });
}

}  // namespace psgd::cudnn
