#include <cmath>

#include "engine/ops/logits_layout.h"
#include "engine/reference/compute.h"

namespace psgd::reference {
namespace {

bool Counts(const SoftmaxCrossEntropy& op, int32_t label) {
  return label >= 0 && label != op.ignored;
}

// The softmax of a place: p[c] = exp(x[c] - largest) / sum.
struct PlaceSoftmax {
  double largest, sum;
};

}  // namespace

// REQUIRES: labels are in [-1, classes), or the ignored label.
template <typename T>
void Compute(const SoftmaxCrossEntropy& op, const Operands<T>& t) {
  const LogitsLayout layout(t.in_shape(0));
  const int32_t* label = t.template in_as<int32_t>(1);
  PlaceSoftmax* softmax = t.template out_as<PlaceSoftmax>(0);
  double loss = 0, correct = 0, counted = 0;
  const int64_t end = layout.classes * layout.inner;
  for (int64_t n = 0; n < layout.places; ++n) {
    const T* x = t.in(0) + layout.First(n);
    int64_t best = 0;
    for (int64_t c = layout.inner; c < end; c += layout.inner) best = x[c] > x[best] ? c : best;
    double sum = 0;
    for (int64_t c = 0; c < end; c += layout.inner) sum += std::exp(x[c] - x[best]);
    softmax[n] = {x[best], sum};
    if (!Counts(op, label[n])) continue;
    const int64_t truth = label[n] * layout.inner;
    double target = double{x[truth]} - x[best];
    if (op.label_smoothing > 0) {
      double all = 0;
      for (int64_t c = 0; c < end; c += layout.inner) all += double{x[c]} - x[best];
      target += op.label_smoothing * (all / static_cast<double>(layout.classes) - target);
    }
    loss += std::log(sum) - target;
    correct += best == truth;
    counted += 1;
  }
  double* result = t.template out_as<double>(1);
  result[0] = loss;
  result[1] = correct;
  result[2] = counted;
}

template <typename T>
void Compute(const SoftmaxCrossEntropyBackward& op, const Operands<T>& t) {
  const LogitsLayout layout(t.in_shape(0));
  const T* logits = t.in(0);
  const PlaceSoftmax* softmax = t.template in_as<PlaceSoftmax>(1);
  const int32_t* label = t.template in_as<int32_t>(2);
  const double* result = t.template in_as<double>(3);
  T* dx = t.out(0);
  const double weight = result[2] > 0 ? 1 / result[2] : 0;
  const double spread = op.forward.label_smoothing / static_cast<double>(layout.classes);
  const T others = static_cast<T>(spread);
  const T truth = static_cast<T>(spread + 1 - double{op.forward.label_smoothing});
  for (int64_t n = 0; n < layout.places; ++n) {
    const bool counted = Counts(op.forward, label[n]);
    const T largest = static_cast<T>(softmax[n].largest);
    for (int64_t c = 0; c < layout.classes; ++c) {
      const int64_t i = layout.First(n) + c * layout.inner;
      const T target = c == label[n] ? truth : others;
      const T p = static_cast<T>(std::exp(logits[i] - largest) / softmax[n].sum);
      dx[i] = counted ? static_cast<T>((p - target) * weight) : T{0};
    }
  }
}

PSGD_REFERENCE_OP(SoftmaxCrossEntropy);
PSGD_REFERENCE_OP(SoftmaxCrossEntropyBackward);

}  // namespace psgd::reference
