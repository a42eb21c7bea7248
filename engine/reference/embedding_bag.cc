#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const EmbeddingBag&, const Operands<T>& t) {
  const int32_t* index = t.template in_as<int32_t>(0);
  const int64_t entries = t.in_shape(0)[1], width = t.in_shape(2)[1];
  for (int64_t n = 0; n < t.in_shape(0)[0]; ++n) {
    for (int64_t d = 0; d < width; ++d) {
      double sum = 0;
      for (int64_t f = n * entries; f < (n + 1) * entries; ++f) {
        sum += double{t.in(1)[f]} * double{t.in(2)[index[f] * width + d]};
      }
      t.out(0)[n * width + d] = static_cast<T>(sum);
    }
  }
}

template <typename T>
void Compute(const EmbeddingBagBackward&, const Operands<T>& t) {
  const int32_t* index = t.template in_as<int32_t>(0);
  const int64_t entries = t.in_shape(0)[1], width = t.out_shape(0)[1];
  for (int64_t v = 0; v < t.out_shape(0)[0]; ++v) {
    for (int64_t d = 0; d < width; ++d) {
      double sum = 0;
      for (int64_t f = 0; f < ElementCount(t.in_shape(0)); ++f) {
        if (index[f] == v) sum += double{t.in(1)[f]} * double{t.in(2)[f / entries * width + d]};
      }
      t.out(0)[v * width + d] = static_cast<T>(sum);
    }
  }
}

PSGD_REFERENCE_OP(EmbeddingBag);
PSGD_REFERENCE_OP(EmbeddingBagBackward);

}  // namespace psgd::reference
