// One step of an LSTM or GRU on the host, for every backend in host memory: the twins differ in how
// they multiply matrices, and these loops are short next to that. Formulas and saved values are
// those of recurrent.h; `width` is H.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/ops/recurrent.h"

namespace psgd {

template <typename T>
T Logistic(T x) {
  return 1 / (1 + std::exp(-x));
}

// What the step before saved, and its h; null at the first step.
template <typename T>
struct CellBefore {
  const T* saved = nullptr;
  const T* h = nullptr;
};

// a, b: the gates' inputs of this step, biases included. Writes `saved` and `h`.
template <typename T>
void RunCell(const Recurrent& op, int64_t width, const T* a, const T* b,
             const CellBefore<T>& before, T* saved, T* h) {
  for (int64_t j = 0; j < width; ++j) {
    const auto sum = [&](int gate) { return a[gate * width + j] + b[gate * width + j]; };
    if (op.kind == Recurrent::Kind::kLstm) {
      const T i = Logistic(sum(0)), f = Logistic(sum(1)), g = std::tanh(sum(2));
      const T o = Logistic(sum(3));
      const T c = i * g + (before.saved != nullptr ? f * before.saved[4 * width + j] : T{0});
      saved[j] = i;
      saved[width + j] = f;
      saved[2 * width + j] = g;
      saved[3 * width + j] = o;
      saved[4 * width + j] = c;
      h[j] = o * std::tanh(c);
    } else {
      const T r = Logistic(sum(0)), z = Logistic(sum(1)), hidden = b[2 * width + j];
      const T g = std::tanh(a[2 * width + j] + r * hidden);
      saved[j] = r;
      saved[width + j] = z;
      saved[2 * width + j] = g;
      saved[3 * width + j] = hidden;
      h[j] = (1 - z) * g + (before.h != nullptr ? z * before.h[j] : T{0});
    }
  }
}

// dh: the whole gradient of this step's h. `carry`: of this step's c (LSTM), replaced by that of
// the last step's; for a GRU only written, with the part of the last h's gradient that does not
// pass through b. Writes the gradients of a and b.
template <typename T>
void RunCellBackward(const Recurrent& op, int64_t width, const T* saved,
                     const CellBefore<T>& before, const T* dh, T* carry, T* da, T* db) {
  for (int64_t j = 0; j < width; ++j) {
    const auto kept = [&](int value) { return saved[value * width + j]; };
    if (op.kind == Recurrent::Kind::kLstm) {
      const T i = kept(0), f = kept(1), g = kept(2), o = kept(3);
      const T curved = std::tanh(kept(4));
      const T dc = carry[j] + dh[j] * o * (1 - curved * curved);
      const T last = before.saved != nullptr ? before.saved[4 * width + j] : T{0};
      da[j] = dc * g * i * (1 - i);
      da[width + j] = dc * last * f * (1 - f);
      da[2 * width + j] = dc * i * (1 - g * g);
      da[3 * width + j] = dh[j] * curved * o * (1 - o);
      for (int gate = 0; gate < 4; ++gate) db[gate * width + j] = da[gate * width + j];
      carry[j] = dc * f;
    } else {
      const T r = kept(0), z = kept(1), g = kept(2), hidden = kept(3);
      const T last = before.h != nullptr ? before.h[j] : T{0};
      const T inner = dh[j] * (1 - z) * (1 - g * g);  // of tanh's argument
      da[j] = db[j] = inner * hidden * r * (1 - r);
      da[width + j] = db[width + j] = dh[j] * (last - g) * z * (1 - z);
      da[2 * width + j] = inner;
      db[2 * width + j] = inner * r;
      carry[j] = dh[j] * z;
    }
  }
}

}  // namespace psgd
