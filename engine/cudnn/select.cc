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
  l.Run(SelectElements, l.type(), made, l.elements(c.out(0)), condition, a, b, y);
}

}  // namespace psgd::cudnn
