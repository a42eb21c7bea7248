// One step of an LSTM, GRU or plain cell, element by element. The backends share it, as they differ
// only in how they multiply matrices. Formulas and saved values are those of recurrent.h; `width`
// is H. The loops are for backends in host memory. CUDA kernels share the functions of one element.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/host_device.h"
#include "engine/ops/activation_formula.h"
#include "engine/ops/recurrent.h"

namespace psgd {

// One element of the previous step's state; zeros at the first step.
template <typename T>
struct CellState {
  T c = 0, h = 0;
};

// a(gate), b(gate): the element's inputs of each gate, with biases. Writes the saved values,
// `width` apart, and returns h.
template <typename T, typename A, typename B>
PS_HD T RunCellElement(const Recurrent& op, int64_t width, const A& a, const B& b,
                       const CellState<T>& before, T* saved) {
  if (op.kind == Recurrent::Kind::kLstm) {
    const T i = Logistic(a(0) + b(0)), f = Logistic(a(1) + b(1)), g = std::tanh(a(2) + b(2));
    const T o = Logistic(a(3) + b(3));
    const T c = i * g + f * before.c;
    saved[0] = i;
    saved[width] = f;
    saved[2 * width] = g;
    saved[3 * width] = o;
    saved[4 * width] = c;
    return o * std::tanh(c);
  }
  if (op.kind != Recurrent::Kind::kGru) {
    const T sum = a(0) + b(0);
    saved[0] = op.kind == Recurrent::Kind::kTanh ? std::tanh(sum) : sum > 0 ? sum : T(0);
    return saved[0];
  }
  const T r = Logistic(a(0) + b(0)), z = Logistic(a(1) + b(1)), hidden = b(2);
  const T g = std::tanh(a(2) + r * hidden);
  saved[0] = r;
  saved[width] = z;
  saved[2 * width] = g;
  saved[3 * width] = hidden;
  return (1 - z) * g + z * before.h;
}

// Gradients of an element's a and b, of which a GRU uses three and a plain cell one.
template <typename T>
struct CellGradient {
  T a[4], b[4];
};

// dh: the complete gradient of this step's h. `carry`, LSTM: in the gradient of this step's c, out
// that of the previous step's c. `carry`, GRU: only out, the part of the gradient of the previous h
// that does not pass through b. A plain cell has no such part.
template <typename T>
PS_HD CellGradient<T> RunCellElementBackward(const Recurrent& op, int64_t width, const T* saved,
                                             const CellState<T>& before, T dh, T* carry) {
  CellGradient<T> d = {};
  if (op.kind == Recurrent::Kind::kLstm) {
    const T i = saved[0], f = saved[width], g = saved[2 * width], o = saved[3 * width];
    const T curved = std::tanh(saved[4 * width]);
    const T dc = *carry + dh * o * (1 - curved * curved);
    d.a[0] = dc * g * i * (1 - i);
    d.a[1] = dc * before.c * f * (1 - f);
    d.a[2] = dc * i * (1 - g * g);
    d.a[3] = dh * curved * o * (1 - o);
    for (int gate = 0; gate < 4; ++gate) d.b[gate] = d.a[gate];
    *carry = dc * f;
    return d;
  }
  if (op.kind != Recurrent::Kind::kGru) {
    const T h = saved[0];
    d.a[0] = d.b[0] = dh * (op.kind == Recurrent::Kind::kTanh ? 1 - h * h : T(h > 0));
    *carry = 0;
    return d;
  }
  const T r = saved[0], z = saved[width], g = saved[2 * width], hidden = saved[3 * width];
  const T inner = dh * (1 - z) * (1 - g * g);  // of tanh's argument
  d.a[0] = d.b[0] = inner * hidden * r * (1 - r);
  d.a[1] = d.b[1] = dh * (before.h - g) * z * (1 - z);
  d.a[2] = inner;
  d.b[2] = inner * r;
  *carry = dh * z;
  return d;
}

// The previous step's saved values and h; null at the first step.
template <typename T>
struct CellBefore {
  const T* saved = nullptr;
  const T* h = nullptr;

  CellState<T> At(const Recurrent& op, int64_t width, int64_t j) const {
    if (h == nullptr) return {};
    return {op.kind == Recurrent::Kind::kLstm ? saved[4 * width + j] : T{0}, h[j]};
  }
};

// a, b: the gates' inputs of this step, with biases. Writes `saved` and `h`.
template <typename T>
void RunCell(const Recurrent& op, int64_t width, const T* a, const T* b,
             const CellBefore<T>& before, T* saved, T* h) {
  for (int64_t j = 0; j < width; ++j) {
    h[j] = RunCellElement(
        op, width, [&](int gate) { return a[gate * width + j]; },
        [&](int gate) { return b[gate * width + j]; }, before.At(op, width, j), saved + j);
  }
}

// Writes the gradients of a and b. RunCellElementBackward explains dh and `carry`.
template <typename T>
void RunCellBackward(const Recurrent& op, int64_t width, const T* saved,
                     const CellBefore<T>& before, const T* dh, T* carry, T* da, T* db) {
  for (int64_t j = 0; j < width; ++j) {
    const CellGradient<T> d =
        RunCellElementBackward(op, width, saved + j, before.At(op, width, j), dh[j], carry + j);
    for (int64_t gate = 0; gate < op.gates(); ++gate) {
      da[gate * width + j] = d.a[gate];
      db[gate * width + j] = d.b[gate];
    }
  }
}

}  // namespace psgd
