// One layer of LSTM, GRU or plain cells over a sequence, from a state of zeros, with PyTorch's
// gates and weights. At step t let a = w_ih x[n, t] + b_ih and b = w_hh h[n, t-1] + b_hh, each of G
// gates of H values. s is the logistic function, and products are element by element:
//   LSTM, gates i f g o:  i = s(a_i + b_i)  f = s(a_f + b_f)  g = tanh(a_g + b_g)  o = s(a_o + b_o)
//                         c[n, t] = f c[n, t-1] + i g    h[n, t] = o tanh(c[n, t])
//   GRU, gates r z n:     r = s(a_r + b_r)  z = s(a_z + b_z)  g = tanh(a_n + r b_n)
//                         h[n, t] = (1 - z) g + z h[n, t-1]
//   tanh:                 h[n, t] = tanh(a + b)
//   relu:                 h[n, t] = max(a + b, 0)
// y is h. For the backward pass each step saves i f g o and c (LSTM), r z g and b_n (GRU), or h.
//   x: N T I    w_ih: G*H I    w_hh: G*H H    b_ih, b_hh: G*H    y: N T H    saved: N T S*H
#pragma once

#include <cstdint>

namespace psgd {

// x, w_ih, w_hh, b_ih, b_hh -> y, saved
struct Recurrent {
  enum class Kind { kLstm, kGru, kTanh, kRelu };
  Kind kind = Kind::kLstm;

  int64_t gates() const { return kind == Kind::kLstm ? 4 : kind == Kind::kGru ? 3 : 1; }
  int64_t saved() const { return kind == Kind::kLstm ? 5 : kind == Kind::kGru ? 4 : 1; }
};

// x, w_ih, w_hh, y, saved, dy -> dw_ih, dw_hh, db_ih, db_hh[, dx]
struct RecurrentBackward {
  Recurrent forward;
};

}  // namespace psgd
