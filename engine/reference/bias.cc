#include <vector>

#include "engine/reference/compute.h"

namespace psgd::reference {
namespace {

// Calls visit(index, channel) for every element.
template <typename Visit>
void ForEachElement(const Shape& shape, Visit visit) {
  const int64_t area = ElementCount(shape) / (shape[0] * shape[1]);
  for (int64_t i = 0; i < ElementCount(shape); ++i) visit(i, i / area % shape[1]);
}

}  // namespace

template <typename T>
void Compute(const Bias&, const Operands<T>& t) {
  ForEachElement(t.in_shape(0),
                 [&](int64_t i, int64_t c) { t.out(0)[i] = t.in(0)[i] + t.in(1)[c]; });
}

template <typename T>
void Compute(const BiasBackward&, const Operands<T>& t) {
  std::vector<double> sums(ElementCount(t.out_shape(0)), 0.0);
  ForEachElement(t.in_shape(0), [&](int64_t i, int64_t c) { sums[c] += t.in(0)[i]; });
  for (size_t c = 0; c < sums.size(); ++c) t.out(0)[c] = static_cast<T>(sums[c]);
}

PSGD_REFERENCE_OP(Bias);
PSGD_REFERENCE_OP(BiasBackward);

}  // namespace psgd::reference
