#include <algorithm>
#include <vector>

#include "engine/reference/compute.h"

namespace psgd::reference {
namespace {

// Calls visit(index of y, index of x) for every element of y.
template <typename Visit>
void ForEachCorner(int factor, const Shape& y, Visit visit) {
  const int64_t x_height = y[2] / factor, x_width = y[3] / factor;
  for (int64_t image = 0; image < y[0] * y[1]; ++image) {
    for (int64_t i = 0; i < y[2]; ++i) {
      for (int64_t j = 0; j < y[3]; ++j) {
        visit((image * y[2] + i) * y[3] + j,
              (image * x_height + i / factor) * x_width + j / factor);
      }
    }
  }
}

}  // namespace

template <typename T>
void Compute(const Upsample& op, const Operands<T>& t) {
  ForEachCorner(op.factor, t.out_shape(0),
                [&](int64_t yi, int64_t xi) { t.out(0)[yi] = t.in(0)[xi]; });
}

template <typename T>
void Compute(const UpsampleBackward& op, const Operands<T>& t) {
  std::vector<double> sums(ElementCount(t.out_shape(0)), 0.0);
  ForEachCorner(op.forward.factor, t.in_shape(0),
                [&](int64_t yi, int64_t xi) { sums[xi] += t.in(0)[yi]; });
  std::transform(sums.begin(), sums.end(), t.out(0), [](double s) { return static_cast<T>(s); });
}

PSGD_REFERENCE_OP(Upsample);
PSGD_REFERENCE_OP(UpsampleBackward);

}  // namespace psgd::reference
