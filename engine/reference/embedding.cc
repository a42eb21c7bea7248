#include <algorithm>

#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const Embedding&, const Operands<T>& t) {
  const int32_t* index = t.template in_as<int32_t>(0);
  const int64_t places = ElementCount(t.in_shape(0)), width = t.in_shape(1)[1];
  if (t.inputs() == 2) {
    for (int64_t i = 0; i < places; ++i) {
      std::copy_n(t.in(1) + index[i] * width, width, t.out(0) + i * width);
    }
    return;
  }
  const int64_t entries = t.in_shape(0)[1];
  for (int64_t n = 0; n < t.in_shape(0)[0]; ++n) {
    for (int64_t d = 0; d < width; ++d) {
      double sum = 0;
      for (int64_t f = n * entries; f < (n + 1) * entries; ++f) {
        sum += double{t.in(2)[f]} * double{t.in(1)[index[f] * width + d]};
      }
      t.out(0)[n * width + d] = static_cast<T>(sum);
    }
  }
}

template <typename T>
void Compute(const EmbeddingBackward&, const Operands<T>& t) {
  const int32_t* index = t.template in_as<int32_t>(0);
  const T* value = t.inputs() > 2 ? t.in(2) : nullptr;
  const int64_t width = t.out_shape(0)[1], places = ElementCount(t.in_shape(0));
  const int64_t entries = value == nullptr ? 1 : t.in_shape(0)[1];
  for (int64_t v = 0; v < t.out_shape(0)[0]; ++v) {
    for (int64_t d = 0; d < width; ++d) {
      double sum = 0;
      for (int64_t f = 0; f < places; ++f) {
        if (index[f] != v) continue;
        sum += (value == nullptr ? 1 : double{value[f]}) * double{t.in(1)[f / entries * width + d]};
      }
      t.out(0)[v * width + d] = static_cast<T>(sum);
    }
  }
}

PSGD_REFERENCE_OP(Embedding);
PSGD_REFERENCE_OP(EmbeddingBackward);

}  // namespace psgd::reference
