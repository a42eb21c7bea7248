#include <algorithm>
#include <cmath>

#include "engine/reference/compute.h"

namespace psgd::reference {

template <typename T>
void Compute(const Softmax& op, const Operands<T>& t) {
  const Shape& shape = t.in_shape(0);
  const int64_t keys = shape.back(), rows = ElementCount(shape) / keys;
  const int64_t queries = op.causal ? shape[shape.size() - 2] : 1;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t open = keys;
    if (op.causal) open = std::clamp<int64_t>(row % queries + 1 + keys - queries, 0, keys);
    if (t.inputs() > 1) {
      const int64_t length = t.template in_as<int32_t>(1)[row / (rows / shape[0])];
      open = std::clamp<int64_t>(length, 0, open);
    }
    const T* x = t.in(0) + row * keys;
    T* y = t.out(0) + row * keys;
    double sum = 0;
    const double largest = open > 0 ? *std::max_element(x, x + open) : T{0};
    for (int64_t k = 0; k < open; ++k) sum += std::exp(op.scale * (x[k] - largest));
    for (int64_t k = 0; k < keys; ++k) {
      y[k] = k < open ? static_cast<T>(std::exp(op.scale * (x[k] - largest)) / sum) : T{0};
    }
  }
}

template <typename T>
void Compute(const SoftmaxBackward& op, const Operands<T>& t) {
  const int64_t keys = t.in_shape(0).back(), rows = ElementCount(t.in_shape(0)) / keys;
  for (int64_t row = 0; row < rows; ++row) {
    const T *y = t.in(0) + row * keys, *dy = t.in(1) + row * keys;
    double sum = 0;
    for (int64_t k = 0; k < keys; ++k) sum += double{y[k]} * dy[k];
    for (int64_t k = 0; k < keys; ++k) {
      t.out(0)[row * keys + k] = static_cast<T>(op.forward.scale * (y[k] * (dy[k] - sum)));
    }
  }
}

PSGD_REFERENCE_OP(Softmax);
PSGD_REFERENCE_OP(SoftmaxBackward);

}  // namespace psgd::reference
