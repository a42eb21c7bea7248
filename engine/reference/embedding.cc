#include <algorithm>

#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const Embedding&, const Operands<T>& t) {
  const int32_t* index = t.template in_as<int32_t>(0);
  const int64_t width = t.in_shape(1)[1];
  for (int64_t i = 0; i < ElementCount(t.in_shape(0)); ++i) {
    std::copy_n(t.in(1) + index[i] * width, width, t.out(0) + i * width);
  }
}

template <typename T>
void Compute(const EmbeddingBackward&, const Operands<T>& t) {
  const int32_t* index = t.template in_as<int32_t>(0);
  const int64_t width = t.out_shape(0)[1], places = ElementCount(t.in_shape(0));
  for (int64_t v = 0; v < t.out_shape(0)[0]; ++v) {
    for (int64_t d = 0; d < width; ++d) {
      double sum = 0;
      for (int64_t i = 0; i < places; ++i)
        sum += index[i] == v ? double{t.in(1)[i * width + d]} : 0;
      t.out(0)[v * width + d] = static_cast<T>(sum);
    }
  }
}

PSGD_REFERENCE_OP(Embedding);
PSGD_REFERENCE_OP(EmbeddingBackward);

}  // namespace psgd::reference
