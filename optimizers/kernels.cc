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

void Adam(const AdamConstants& c, const OptimizerBlock& b) {
  const float* m_in = b.state_in[0];
  const float* v_in = b.state_in[1];
  float* m_out = b.state_out[0];
  float* v_out = b.state_out[1];
  ForEach(b.size, [&](auto d, size_t i) HWY_ATTR {
    const auto w = hn::Mul(hn::LoadU(d, b.weights_in + i), hn::Set(d, c.keep));
    const auto g = hn::LoadU(d, b.gradient + i);
    const auto m = hn::Add(hn::Mul(hn::Set(d, c.beta1), hn::LoadU(d, m_in + i)),
                           hn::Mul(hn::Set(d, c.one_minus_beta1), g));
    const auto v = hn::Add(hn::Mul(hn::Set(d, c.beta2), hn::LoadU(d, v_in + i)),
                           hn::Mul(hn::Mul(hn::Set(d, c.one_minus_beta2), g), g));
    const auto root =
        hn::Add(hn::Mul(hn::Sqrt(v), hn::Set(d, c.inverse_root_correction)), hn::Set(d, c.epsilon));
    hn::StoreU(m, d, m_out + i);
    hn::StoreU(v, d, v_out + i);
    hn::StoreU(hn::Sub(w, hn::Div(hn::Mul(hn::Set(d, c.step_size), m), root)), d,
               b.weights_out + i);
  });
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

}  // namespace HWY_NAMESPACE
}  // namespace psgd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace psgd {
namespace {
HWY_EXPORT(Sgd);
HWY_EXPORT(Momentum);
HWY_EXPORT(Nesterov);
HWY_EXPORT(Adagrad);
HWY_EXPORT(Adam);
HWY_EXPORT(CompensateDelayLoop);
HWY_EXPORT(AddDeltaLoop);
}  // namespace

void SgdLoop(float rate, const OptimizerBlock& block) { HWY_DYNAMIC_DISPATCH(Sgd)(rate, block); }
void MomentumLoop(float rate, float momentum, const OptimizerBlock& block) {
  HWY_DYNAMIC_DISPATCH(Momentum)(rate, momentum, block);
}
void NesterovLoop(float rate, float momentum, const OptimizerBlock& block) {
  HWY_DYNAMIC_DISPATCH(Nesterov)(rate, momentum, block);
}
void AdagradLoop(float rate, float epsilon, const OptimizerBlock& block) {
  HWY_DYNAMIC_DISPATCH(Adagrad)(rate, epsilon, block);
}
void AdamLoop(const AdamConstants& constants, const OptimizerBlock& block) {
  HWY_DYNAMIC_DISPATCH(Adam)(constants, block);
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
