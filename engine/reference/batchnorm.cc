#include <cmath>

#include "engine/reference/compute.h"

namespace psgd::reference {
namespace {

// Calls visit(index) for the elements of one channel.
template <typename Visit>
void ForChannel(const Shape& x, int64_t channel, Visit visit) {
  const int64_t area = x[2] * x[3];
  for (int64_t n = 0; n < x[0]; ++n) {
    for (int64_t i = 0; i < area; ++i) visit((n * x[1] + channel) * area + i);
  }
}

template <typename T>
void Normalise(const Operands<T>& t, int64_t channel, double mean, double var, double epsilon) {
  const double scale = t.in(1)[channel] / std::sqrt(var + epsilon);
  ForChannel(t.in_shape(0), channel, [&](int64_t i) {
    t.out(0)[i] = static_cast<T>((t.in(0)[i] - mean) * scale + t.in(2)[channel]);
  });
}

}  // namespace

template <typename T>
void Compute(const BatchNorm& op, const Operands<T>& t) {
  const T* x = t.in(0);
  const Shape& shape = t.in_shape(0);
  const double count = static_cast<double>(shape[0] * shape[2] * shape[3]);
  for (int64_t c = 0; c < shape[1]; ++c) {
    double sum = 0, squares = 0;
    ForChannel(shape, c, [&](int64_t i) { sum += x[i]; });
    const double mean = sum / count;
    ForChannel(shape, c, [&](int64_t i) { squares += (x[i] - mean) * (x[i] - mean); });
    const double var = squares / count;
    Normalise(t, c, mean, var, op.epsilon);
    t.out(1)[c] = static_cast<T>(mean);
    t.out(2)[c] = static_cast<T>(var);
    t.out(3)[c] = static_cast<T>(op.momentum * (mean - t.in(3)[c]));
    t.out(4)[c] = static_cast<T>(op.momentum * (squares / (count - 1) - t.in(4)[c]));
  }
}

template <typename T>
void Compute(const BatchNormInference& op, const Operands<T>& t) {
  for (int64_t c = 0; c < t.in_shape(0)[1]; ++c) {
    Normalise(t, c, t.in(3)[c], t.in(4)[c], op.epsilon);
  }
}

template <typename T>
void Compute(const BatchNormBackward& op, const Operands<T>& t) {
  const T *x = t.in(0), *gamma = t.in(1), *mean = t.in(2), *var = t.in(3), *dy = t.in(4);
  const Shape& shape = t.in_shape(0);
  const double count = static_cast<double>(shape[0] * shape[2] * shape[3]);
  for (int64_t c = 0; c < shape[1]; ++c) {
    const double inverse = 1 / std::sqrt(double{var[c]} + op.forward.epsilon);
    double sum = 0, projected = 0;
    ForChannel(shape, c, [&](int64_t i) {
      sum += dy[i];
      projected += dy[i] * (x[i] - mean[c]) * inverse;
    });
    t.out(0)[c] = static_cast<T>(projected);
    t.out(1)[c] = static_cast<T>(sum);
    if (t.outputs() < 3) continue;
    ForChannel(shape, c, [&](int64_t i) {
      const double normal = (x[i] - mean[c]) * inverse;
      t.out(2)[i] =
          static_cast<T>(gamma[c] * inverse * (dy[i] - sum / count - normal * projected / count));
    });
  }
}

PSGD_REFERENCE_OP(BatchNorm);
PSGD_REFERENCE_OP(BatchNormInference);
PSGD_REFERENCE_OP(BatchNormBackward);

}  // namespace psgd::reference
