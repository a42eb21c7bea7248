#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizers/kernels.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"
#include "optimizers/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace psgd {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls body(tag, i) for whole vectors, then for single elements of the rest. Each body loads
// everything before it stores, so outputs may be their own inputs.
template <typename Body>
HWY_INLINE void ForEach(size_t size, const Body& body) {
  const hn::ScalableTag<float> wide;
  const hn::CappedTag<float, 1> one;
  const size_t lanes = hn::Lanes(wide);
  size_t i = 0;
  for (; i + lanes <= size; i += lanes) body(wide, i);
  for (; i < size; ++i) body(one, i);
}

void Sgd(float rate, const OptimizerBlock& b) {
  ForEach(b.size, [&](auto d, size_t i) HWY_ATTR {
    const auto w = hn::LoadU(d, b.weights_in + i);
    const auto g = hn::LoadU(d, b.gradient + i);
    hn::StoreU(hn::Sub(w, hn::Mul(hn::Set(d, rate), g)), d, b.weights_out + i);
  });
}

void Momentum(float rate, float momentum, const OptimizerBlock& b) {
  const float* v_in = b.state_in[0];
  float* v_out = b.state_out[0];
  ForEach(b.size, [&](auto d, size_t i) HWY_ATTR {
    const auto w = hn::LoadU(d, b.weights_in + i);
    const auto g = hn::LoadU(d, b.gradient + i);
    const auto v = hn::Add(hn::Mul(hn::Set(d, momentum), hn::LoadU(d, v_in + i)), g);
    hn::StoreU(v, d, v_out + i);
    hn::StoreU(hn::Sub(w, hn::Mul(hn::Set(d, rate), v)), d, b.weights_out + i);
  });
}

void Nesterov(float rate, float momentum, const OptimizerBlock& b) {
  const float* v_in = b.state_in[0];
  float* v_out = b.state_out[0];
  ForEach(b.size, [&](auto d, size_t i) HWY_ATTR {
    const auto mu = hn::Set(d, momentum);
    const auto w = hn::LoadU(d, b.weights_in + i);
    const auto g = hn::LoadU(d, b.gradient + i);
    const auto v = hn::Add(hn::Mul(mu, hn::LoadU(d, v_in + i)), g);
    const auto ahead = hn::Add(g, hn::Mul(mu, v));
    hn::StoreU(v, d, v_out + i);
    hn::StoreU(hn::Sub(w, hn::Mul(hn::Set(d, rate), ahead)), d, b.weights_out + i);
  });
}

void Adagrad(float rate, float epsilon, const OptimizerBlock& b) {
  const float* s_in = b.state_in[0];
  float* s_out = b.state_out[0];
  ForEach(b.size, [&](auto d, size_t i) HWY_ATTR {
    const auto w = hn::LoadU(d, b.weights_in + i);
    const auto g = hn::LoadU(d, b.gradient + i);
    const auto s = hn::Add(hn::LoadU(d, s_in + i), hn::Mul(g, g));
    const auto root = hn::Add(hn::Sqrt(s), hn::Set(d, epsilon));
    hn::StoreU(s, d, s_out + i);
    hn::StoreU(hn::Sub(w, hn::Div(hn::Mul(hn::Set(d, rate), g), root)), d, b.weights_out + i);
  });
}

// Stores the new moments.
template <class D>
HWY_INLINE void NextMoments(D d, const MomentConstants& c, const OptimizerBlock& b, size_t i,
                            hn::Vec<D>& m, hn::Vec<D>& v) {
  const auto g = hn::LoadU(d, b.gradient + i);
  m = hn::Add(hn::Mul(hn::Set(d, c.beta1), hn::LoadU(d, b.state_in[0] + i)),
              hn::Mul(hn::Set(d, c.one_minus_beta1), g));
  v = hn::Add(hn::Mul(hn::Set(d, c.beta2), hn::LoadU(d, b.state_in[1] + i)),
              hn::Mul(hn::Mul(hn::Set(d, c.one_minus_beta2), g), g));
  hn::StoreU(m, d, b.state_out[0] + i);
  hn::StoreU(v, d, b.state_out[1] + i);
}

template <class D>
HWY_INLINE hn::Vec<D> AdamStep(D d, const MomentConstants& c, hn::Vec<D> m, hn::Vec<D> v) {
  const auto root =
      hn::Add(hn::Mul(hn::Sqrt(v), hn::Set(d, c.inverse_root_correction)), hn::Set(d, c.epsilon));
  return hn::Div(hn::Mul(hn::Set(d, c.step_size), m), root);
}

void Adam(const MomentConstants& c, float keep, const OptimizerBlock& b) {
  ForEach(b.size, [&](auto d, size_t i) HWY_ATTR {
    const auto w = hn::Mul(hn::LoadU(d, b.weights_in + i), hn::Set(d, keep));
    auto m = hn::Zero(d), v = hn::Zero(d);
    NextMoments(d, c, b, i, m, v);
    hn::StoreU(hn::Sub(w, AdamStep(d, c, m, v)), d, b.weights_out + i);
  });
}

void Lars(float rate, float momentum, const OptimizerBlock& b) {
  ForEach(b.size, [&](auto d, size_t i) HWY_ATTR {
    const auto w = hn::LoadU(d, b.weights_in + i);
    const auto g = hn::LoadU(d, b.gradient + i);
    const auto v = hn::Add(hn::Mul(hn::Set(d, momentum), hn::LoadU(d, b.state_in[0] + i)),
                           hn::Mul(hn::Set(d, rate), g));
    hn::StoreU(v, d, b.state_out[0] + i);
    hn::StoreU(hn::Sub(w, v), d, b.weights_out + i);
  });
}

void LambMoments(const MomentConstants& c, float decay, const OptimizerBlock& b, float* update) {
  ForEach(b.size, [&](auto d, size_t i) HWY_ATTR {
    const auto w = hn::LoadU(d, b.weights_in + i);
    auto m = hn::Zero(d), v = hn::Zero(d);
    NextMoments(d, c, b, i, m, v);
    hn::StoreU(hn::Add(AdamStep(d, c, m, v), hn::Mul(hn::Set(d, decay), w)), d, update + i);
  });
}

void LambStep(const MomentConstants& c, float decay, float rate, const OptimizerBlock& b) {
  ForEach(b.size, [&](auto d, size_t i) HWY_ATTR {
    const auto w = hn::LoadU(d, b.weights_in + i);
    const auto m = hn::LoadU(d, b.state_out[0] + i), v = hn::LoadU(d, b.state_out[1] + i);
    const auto r = hn::Add(AdamStep(d, c, m, v), hn::Mul(hn::Set(d, decay), w));
    hn::StoreU(hn::Sub(w, hn::Mul(hn::Set(d, rate), r)), d, b.weights_out + i);
  });
}

void RenewMomentum(float rate, float momentum, float share, const OptimizerBlock& b) {
  ForEach(b.size, [&](auto d, size_t i) HWY_ATTR {
    const auto w = hn::LoadU(d, b.weights_in + i);
    const auto g = hn::LoadU(d, b.gradient + i);
    const auto sum = hn::Add(hn::LoadU(d, b.state_in[1] + i), g);
    const auto m = hn::Add(hn::Mul(hn::Set(d, momentum), hn::LoadU(d, b.state_in[0] + i)), sum);
    const auto step = hn::Add(hn::Mul(hn::Set(d, share), m), g);
    hn::StoreU(m, d, b.state_out[0] + i);
    hn::StoreU(hn::Zero(d), d, b.state_out[1] + i);
    hn::StoreU(hn::Sub(w, hn::Mul(hn::Set(d, rate), step)), d, b.weights_out + i);
  });
}

void KeepMomentum(float rate, float share, const OptimizerBlock& b) {
  ForEach(b.size, [&](auto d, size_t i) HWY_ATTR {
    const auto w = hn::LoadU(d, b.weights_in + i);
    const auto g = hn::LoadU(d, b.gradient + i);
    const auto m = hn::LoadU(d, b.state_in[0] + i);
    const auto sum = hn::Add(hn::LoadU(d, b.state_in[1] + i), g);
    const auto step = hn::Add(hn::Mul(hn::Set(d, share), m), g);
    hn::StoreU(m, d, b.state_out[0] + i);
    hn::StoreU(sum, d, b.state_out[1] + i);
    hn::StoreU(hn::Sub(w, hn::Mul(hn::Set(d, rate), step)), d, b.weights_out + i);
  });
}

void LookAhead(float momentum, const OptimizerBlock& b, float* update) {
  ForEach(b.size, [&](auto d, size_t i) HWY_ATTR {
    const auto mu = hn::Set(d, momentum);
    const auto g = hn::LoadU(d, b.gradient + i);
    const auto v = hn::Add(hn::Mul(mu, hn::LoadU(d, b.state_in[0] + i)), g);
    hn::StoreU(v, d, b.state_out[0] + i);
    hn::StoreU(hn::Add(g, hn::Mul(mu, v)), d, update + i);
  });
}

void ShrinkAndMove(float keep, float rate, const float* update, const OptimizerBlock& b) {
  ForEach(b.size, [&](auto d, size_t i) HWY_ATTR {
    const auto w = hn::Mul(hn::LoadU(d, b.weights_in + i), hn::Set(d, keep));
    const auto step = hn::Mul(hn::LoadU(d, update + i), hn::Set(d, rate));
    hn::StoreU(hn::Sub(w, step), d, b.weights_out + i);
  });
}

// Rows [row, row + kRows) of two vectors of columns. The sums stay in registers, and each is added
// up in the order of `inner`. These are the only fused operations here: they take half of the time.
template <int kRows, class D>
HWY_INLINE void MultiplyRows(D d, const MatrixProduct& p, const float* panel, size_t row,
                             float* sums) {
  const size_t lanes = hn::Lanes(d);
  hn::Vec<D> left[kRows], right[kRows];
  for (int r = 0; r < kRows; ++r) left[r] = right[r] = hn::Zero(d);
  const float* a = p.a + row * p.inner;
  for (size_t i = 0; i < p.inner; ++i) {
    const auto b_left = hn::LoadU(d, panel + 2 * lanes * i);
    const auto b_right = hn::LoadU(d, panel + 2 * lanes * i + lanes);
    for (int r = 0; r < kRows; ++r) {
      const auto value = hn::Set(d, a[static_cast<size_t>(r) * p.inner + i]);
      left[r] = hn::MulAdd(value, b_left, left[r]);
      right[r] = hn::MulAdd(value, b_right, right[r]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    hn::StoreU(left[r], d, sums + 2 * lanes * static_cast<size_t>(r));
    hn::StoreU(right[r], d, sums + 2 * lanes * static_cast<size_t>(r) + lanes);
  }
}

// A panel is some columns of b, one row of them behind the other, so that loads are next to each
// other.
void Multiply(const MatrixProduct& p, float* panel) {
  constexpr int kRows = 6;
  const hn::CappedTag<float, kPanel / 2> d;
  const size_t width = 2 * hn::Lanes(d);
  float sums[kRows * kPanel];
  for (size_t column = 0; column < p.columns; column += width) {
    const size_t used = std::min(width, p.columns - column);
    for (size_t i = 0; i < p.inner; ++i) {
      float* const to = panel + width * i;
      std::copy_n(p.b + i * p.columns + column, used, to);
      std::fill(to + used, to + width, 0.0f);
    }
    const auto store = [&](size_t row, size_t rows) HWY_ATTR {
      for (size_t r = 0; r < rows; ++r) {
        const float* const made = sums + width * r;
        const size_t at = (row + r) * p.columns + column;
        ForEach(used, [&](auto tag, size_t j) HWY_ATTR {
          auto out = hn::Mul(hn::Set(tag, p.scale), hn::LoadU(tag, made + j));
          if (p.keep != 0) {
            out = hn::Add(out, hn::Mul(hn::Set(tag, p.keep), hn::LoadU(tag, p.old + at + j)));
          }
          hn::StoreU(out, tag, p.out + at + j);
        });
      }
    };
    // Of a symmetric result, a panel ends at the diagonal. Its mirror is what later rows have here.
    const size_t rows = p.is_symmetric ? column + used : p.rows;
    size_t row = 0;
    for (; row + kRows <= rows; row += kRows) {
      MultiplyRows<kRows>(d, p, panel, row, sums);
      store(row, kRows);
    }
    for (; row + 2 <= rows; row += 2) {
      MultiplyRows<2>(d, p, panel, row, sums);
      store(row, 2);
    }
    if (row < rows) {
      MultiplyRows<1>(d, p, panel, row, sums);
      store(row, 1);
    }
    for (size_t r = 0; p.is_symmetric && r < column + used; ++r) {
      for (size_t c = std::max(column, r + 1); c < column + used; ++c) {
        p.out[c * p.columns + r] = p.out[r * p.columns + c];
      }
    }
  }
}

// Four vectors at a time, because each addition waits for the last one to the same sum. Where four
// vectors are shorter than the sums, several passes follow.
void Squares(const float* values, size_t size, double* sums) {
  constexpr size_t kSums = SquareSums::kSums;
  const hn::CappedTag<double, kSums / 4> d;
  const hn::Rebind<float, decltype(d)> single;
  const size_t lanes = hn::Lanes(d);
  const size_t whole = size - size % kSums;
  const auto add = [&](auto& sum, size_t i) HWY_ATTR {
    const auto value = hn::PromoteTo(d, hn::LoadU(single, values + i));
    sum = hn::Add(sum, hn::Mul(value, value));
  };
  for (size_t first = 0; first < kSums; first += 4 * lanes) {
    double* const out = sums + first;
    auto a = hn::LoadU(d, out), b = hn::LoadU(d, out + lanes);
    auto c = hn::LoadU(d, out + 2 * lanes), e = hn::LoadU(d, out + 3 * lanes);
    for (size_t i = first; i < whole; i += kSums) {
      add(a, i);
      add(b, i + lanes);
      add(c, i + 2 * lanes);
      add(e, i + 3 * lanes);
    }
    hn::StoreU(a, d, out);
    hn::StoreU(b, d, out + lanes);
    hn::StoreU(c, d, out + 2 * lanes);
    hn::StoreU(e, d, out + 3 * lanes);
  }
  for (size_t i = whole; i < size; ++i) sums[i % kSums] += double{values[i]} * double{values[i]};
}

void CompensateDelayLoop(float lambda, const float* now, const float* then, float* gradient,
                         size_t size) {
  ForEach(size, [&](auto d, size_t i) HWY_ATTR {
    const auto g = hn::LoadU(d, gradient + i);
    const auto moved = hn::Sub(hn::LoadU(d, now + i), hn::LoadU(d, then + i));
    const auto curvature = hn::Mul(hn::Set(d, lambda), hn::Mul(g, g));
    hn::StoreU(hn::Add(g, hn::Mul(curvature, moved)), d, gradient + i);
  });
}

void AddDeltaLoop(const float* delta, const float* in, float* out, size_t size) {
  ForEach(size, [&](auto d, size_t i) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, in + i), hn::LoadU(d, delta + i)), d, out + i);
  });
}

const OptimizerLoops& Loops() {
  static constexpr OptimizerLoops kLoops = {
      Sgd,      Momentum,      Nesterov,     Adagrad,   Adam,          Lars,    LambMoments,
      LambStep, RenewMomentum, KeepMomentum, LookAhead, ShrinkAndMove, Multiply};
  return kLoops;
}

}  // namespace HWY_NAMESPACE
}  // namespace psgd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace psgd {
namespace {
HWY_EXPORT(Loops);
HWY_EXPORT(Squares);
HWY_EXPORT(CompensateDelayLoop);
HWY_EXPORT(AddDeltaLoop);
}  // namespace

const OptimizerLoops& Loops() { return HWY_DYNAMIC_DISPATCH(Loops)(); }
void AddSquares(const float* values, size_t size, SquareSums* sums) {
  HWY_DYNAMIC_DISPATCH(Squares)(values, size, sums->sums);
}
void CompensateDelay(float lambda, std::span<const float> now, std::span<const float> then,
                     std::span<float> gradient) {
  HWY_DYNAMIC_DISPATCH(CompensateDelayLoop)
  (lambda, now.data(), then.data(), gradient.data(), gradient.size());
}
void AddDelta(std::span<const float> delta, const float* in, float* out) {
  HWY_DYNAMIC_DISPATCH(AddDeltaLoop)(delta.data(), in, out, delta.size());
}

}  // namespace psgd
#endif  // HWY_ONCE
