#include "engine/onednn/lower.h"

namespace psgd::onednn {

void Lower(const Select& op, const Context& c) {
  Lowering& l = c.lowering;
  const auto branch = [&](const std::optional<float>& number, int place) {
    return number ? kNoBuffer : l.GetPlain(c.in(place)).buffer;
  };
  const BufferId condition_buffer = l.GetPlain(c.in(0)).buffer;
  const BufferId a_buffer = branch(op.a, op.place_of_a());
  const BufferId b_buffer = branch(op.b, op.place_of_b());
  const BufferId y_buffer = l.PutPlain(c.out(0)).buffer;
  l.Call([=, count = ElementCount(l.graph().shape(c.out(0)))](const Buffers& buffers, const Step&) {
    const auto values = [&](BufferId buffer) {
      return buffer == kNoBuffer ? nullptr : static_cast<const float*>(buffers[buffer]);
    };
    const float* condition = values(condition_buffer);
    const float *a = values(a_buffer), *b = values(b_buffer);
    float* y = static_cast<float*>(buffers[y_buffer]);
#pragma omp parallel for
    for (int64_t i = 0; i < count; ++i) {
      y[i] = Selected(condition[i], op.a ? *op.a : a[i], op.b ? *op.b : b[i]);
    }
  });
}

}  // namespace psgd::onednn
