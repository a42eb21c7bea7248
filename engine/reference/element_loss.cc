#include "engine/ops/element_loss_formula.h"
#include "engine/ops/logits_layout.h"
#include "engine/reference/compute.h"

namespace psgd::reference {

// REQUIRES: labels in [-1, classes).
template <typename T>
void Compute(const ElementLoss& op, const Operands<T>& t) {
  const LogitsLayout layout(t.in_shape(0));
  const int32_t* label = t.template in_as<int32_t>(1);
  double loss = 0, correct = 0, counted = 0;
  const int64_t end = layout.classes * layout.inner;
  for (int64_t n = 0; n < layout.places; ++n) {
    if (label[n] < 0) continue;
    const T* x = t.in(0) + layout.First(n);
    const T* target = t.inputs() > 2 ? t.in(2) + layout.First(n) : nullptr;
    const int64_t truth = label[n] * layout.inner;
    double sum = 0;
    int64_t best = 0;
    for (int64_t c = 0; c < end; c += layout.inner) {
      sum += LossOfElement(op, x[c], target == nullptr ? c == truth : double{target[c]});
      best = x[c] > x[best] ? c : best;
    }
    loss += sum / static_cast<double>(layout.classes);
    correct += target == nullptr && best == truth;
    counted += 1;
  }
  double* result = t.template out_as<double>(0);
  result[0] = loss;
  result[1] = correct;
  result[2] = counted;
}

template <typename T>
void Compute(const ElementLossBackward& op, const Operands<T>& t) {
  const LogitsLayout layout(t.in_shape(0));
  const T* logits = t.in(0);
  const int32_t* label = t.template in_as<int32_t>(1);
  const double* result = t.template in_as<double>(2);
  const T* target = t.inputs() > 3 ? t.in(3) : nullptr;
  T* dx = t.out(0);
  const double weight = result[2] > 0 ? 1 / (result[2] * static_cast<double>(layout.classes)) : 0;
  for (int64_t n = 0; n < layout.places; ++n) {
    for (int64_t c = 0; c < layout.classes; ++c) {
      const int64_t i = layout.First(n) + c * layout.inner;
      const double wanted = target == nullptr ? c == label[n] : double{target[i]};
      const double slope = label[n] < 0 ? 0 : SlopeOfElement(op.forward, logits[i], wanted);
      dx[i] = static_cast<T>(slope * weight);
    }
  }
}

PSGD_REFERENCE_OP(ElementLoss);
PSGD_REFERENCE_OP(ElementLossBackward);

}  // namespace psgd::reference
