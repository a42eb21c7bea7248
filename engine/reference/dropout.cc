#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const Dropout& op, const Operands<T>& t) {
  const int64_t count = ElementCount(t.in_shape(0));
  uint8_t* mask = t.template out_as<uint8_t>(1);
  DrawDropoutMask(op, t.dropout, t.step.number, {mask, static_cast<size_t>(count)});
  const T scale = T{1} / (T{1} - op.rate);
  for (int64_t i = 0; i < count; ++i) t.out(0)[i] = mask[i] ? t.in(0)[i] * scale : T{0};
}

template <typename T>
void Compute(const DropoutBackward& op, const Operands<T>& t) {
  const uint8_t* mask = t.template in_as<uint8_t>(1);
  const T scale = T{1} / (T{1} - op.rate);
  for (int64_t i = 0; i < ElementCount(t.in_shape(0)); ++i) {
    t.out(0)[i] = mask[i] ? t.in(0)[i] * scale : T{0};
  }
}

PSGD_REFERENCE_OP(Dropout);
PSGD_REFERENCE_OP(DropoutBackward);

}  // namespace psgd::reference
