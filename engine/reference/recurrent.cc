#include <algorithm>

#include "engine/ops/recurrent_cell.h"
#include "engine/reference/compute.h"

// Values within a sample are in double for every T.
namespace psgd::reference {
namespace {

using Values = std::vector<double>;

// bias + w x; w is rows x columns.
template <typename T>
Values Affine(int64_t rows, int64_t columns, const T* w, const T* bias, const double* x) {
  Values y(bias, bias + rows);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) y[r] += double{w[r * columns + c]} * x[c];
  }
  return y;
}

// The backward pass of Affine: dx += dy w and dw += dy x.
template <typename T>
void AffineBackward(int64_t rows, int64_t columns, const T* w, const double* x, const Values& dy,
                    double* dx, Values* dw) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      dx[c] += dy[r] * w[r * columns + c];
      (*dw)[r * columns + c] += dy[r] * x[c];
    }
  }
}

// One sample's rows of a tensor.
template <typename T>
Values Sample(const T* tensor, int64_t n, int64_t count) {
  return Values(tensor + n * count, tensor + (n + 1) * count);
}

template <typename T>
void Store(const Values& values, T* out) {
  std::transform(values.begin(), values.end(), out, [](double v) { return static_cast<T>(v); });
}

}  // namespace

template <typename T>
void Compute(const Recurrent& op, const Operands<T>& t) {
  const int64_t steps = t.in_shape(0)[1], inputs = t.in_shape(0)[2], width = t.out_shape(0)[2];
  const int64_t rows = op.gates() * width, kept = op.saved() * width;
  for (int64_t n = 0; n < t.in_shape(0)[0]; ++n) {
    const Values x = Sample(t.in(0), n, steps * inputs), zeros(width);
    Values y(steps * width), saved(steps * kept);
    CellBefore<double> before;
    for (int64_t step = 0; step < steps; ++step) {
      const double* last = before.h == nullptr ? zeros.data() : before.h;
      const Values a = Affine(rows, inputs, t.in(1), t.in(3), &x[step * inputs]);
      const Values b = Affine(rows, width, t.in(2), t.in(4), last);
      RunCell(op, width, a.data(), b.data(), before, &saved[step * kept], &y[step * width]);
      before = {&saved[step * kept], &y[step * width]};
    }
    Store(y, t.out(0) + n * steps * width);
    Store(saved, t.out(1) + n * steps * kept);
  }
}

template <typename T>
void Compute(const RecurrentBackward& op, const Operands<T>& t) {
  const int64_t steps = t.in_shape(0)[1], inputs = t.in_shape(0)[2], width = t.in_shape(3)[2];
  const int64_t rows = op.forward.gates() * width, kept = op.forward.saved() * width;
  Values dw_ih(rows * inputs), dw_hh(rows * width), db_ih(rows), db_hh(rows);
  for (int64_t n = 0; n < t.in_shape(0)[0]; ++n) {
    const Values x = Sample(t.in(0), n, steps * inputs), y = Sample(t.in(3), n, steps * width);
    const Values saved = Sample(t.in(4), n, steps * kept), dy = Sample(t.in(5), n, steps * width);
    const bool lstm = op.forward.kind == Recurrent::Kind::kLstm;
    const Values zeros(width);
    Values dx(steps * inputs), dh(width), carry(width), da(rows), db(rows);
    for (int64_t step = steps - 1; step >= 0; --step) {
      CellBefore<double> before;
      if (step > 0) before = {&saved[(step - 1) * kept], &y[(step - 1) * width]};
      for (int64_t j = 0; j < width; ++j) dh[j] += dy[step * width + j];
      RunCellBackward(op.forward, width, &saved[step * kept], before, dh.data(), carry.data(),
                      da.data(), db.data());
      for (int64_t r = 0; r < rows; ++r) {
        db_ih[r] += da[r];
        db_hh[r] += db[r];
      }
      dh = lstm ? zeros : carry;
      AffineBackward(rows, inputs, t.in(1), &x[step * inputs], da, &dx[step * inputs], &dw_ih);
      AffineBackward(rows, width, t.in(2), step > 0 ? before.h : zeros.data(), db, dh.data(),
                     &dw_hh);
    }
    if (t.outputs() > 4) Store(dx, t.out(4) + n * steps * inputs);
  }
  Store(dw_ih, t.out(0));
  Store(dw_hh, t.out(1));
  Store(db_ih, t.out(2));
  Store(db_hh, t.out(3));
}

PSGD_REFERENCE_OP(Recurrent);
PSGD_REFERENCE_OP(RecurrentBackward);

}  // namespace psgd::reference
