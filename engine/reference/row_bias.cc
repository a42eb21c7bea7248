#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const RowBias&, const Operands<T>& t) {
  const int64_t width = ElementCount(t.in_shape(1));
  for (int64_t i = 0; i < ElementCount(t.in_shape(0)); ++i) {
    t.out(0)[i] = t.in(0)[i] + t.in(1)[i % width];
  }
}

template <typename T>
void Compute(const RowBiasBackward&, const Operands<T>& t) {
  const int64_t width = ElementCount(t.out_shape(0)), count = ElementCount(t.in_shape(0));
  for (int64_t s = 0; s < width; ++s) {
    double sum = 0;
    for (int64_t i = s; i < count; i += width) sum += t.in(0)[i];
    t.out(0)[s] = static_cast<T>(sum);
  }
}

PSGD_REFERENCE_OP(RowBias);
PSGD_REFERENCE_OP(RowBiasBackward);

}  // namespace psgd::reference
