#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

absl::Status Lower(const Relu&, const Context& c) {
  Lowering& l = c.lowering;
  const View x = l.GetUsual(c.in(0)), y = l.PutUsual(c.out(0));
  l.CallKernel([=, stream = l.stream(), type = l.type(), count = l.elements(c.in(0))](
                   const Buffers& b, const Step&) {
    return ReluForward(stream, type, count, b[x.buffer], b[y.buffer]);
  });
  return absl::OkStatus();
}

absl::Status Lower(const ReluBackward&, const Context& c) {
  Lowering& l = c.lowering;
  const View y = l.GetUsual(c.in(0)), dy = l.GetUsual(c.in(1)), dx = l.PutUsual(c.out(0));
  l.CallKernel([=, stream = l.stream(), type = l.type(), count = l.elements(c.in(0))](
                   const Buffers& b, const Step&) {
    return ReluGradient(stream, type, count, b[y.buffer], b[dy.buffer], b[dx.buffer]);
  });
  return absl::OkStatus();
}

}  // namespace psgd::cudnn
