#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const Sum&, const Operands<T>& t) {
  for (int64_t i = 0; i < ElementCount(t.out_shape(0)); ++i) {
    double sum = t.in(0)[i];
    for (int term = 1; term < t.inputs(); ++term) sum += t.in(term)[i];
    t.out(0)[i] = static_cast<T>(sum);
  }
}

PSGD_REFERENCE_OP(Sum);

}  // namespace psgd::reference
