#include <optional>

#include "engine/onednn/lower.h"
#include "engine/ops/activation_formula.h"

namespace psgd::onednn {
namespace {

struct Eltwise {
  dnnl::algorithm forward, backward;
  float alpha = 0, beta = 0;
};

// oneDNN's primitive for the op, if there is one as exact as the formula.
std::optional<Eltwise> EltwiseOf(const Activation& op) {
  using dnnl::algorithm;
  const auto same = [&](algorithm made) { return Eltwise{made, made, op.alpha, op.beta}; };
  switch (op.kind) {
    case Activation::Kind::kLeakyRelu:
      return Eltwise{algorithm::eltwise_relu, algorithm::eltwise_relu_use_dst_for_bwd, op.alpha};
    case Activation::Kind::kSigmoid:
      return Eltwise{algorithm::eltwise_logistic, algorithm::eltwise_logistic_use_dst_for_bwd};
    case Activation::Kind::kTanh:
      return Eltwise{algorithm::eltwise_tanh, algorithm::eltwise_tanh_use_dst_for_bwd};
    case Activation::Kind::kGelu:
      return same(algorithm::eltwise_gelu_erf);
    case Activation::Kind::kElu:
      if (op.beta != 1) return std::nullopt;
      return same(algorithm::eltwise_elu);
    case Activation::Kind::kClip:
      return same(algorithm::eltwise_clip_v2);
    case Activation::Kind::kSilu:
      return Eltwise{algorithm::eltwise_swish, algorithm::eltwise_swish, 1};
    case Activation::Kind::kLinear:
      return same(algorithm::eltwise_linear);
    default:
      return std::nullopt;
  }
}

dnnl::eltwise_forward::primitive_desc Forward(const Lowering& l, dnnl::algorithm algorithm,
                                              const Desc& x, const Eltwise& eltwise) {
  return {{dnnl::prop_kind::forward_training, algorithm, x, eltwise.alpha, eltwise.beta},
          PlannedScratchpad(),
          l.engine()};
}

}  // namespace

void Lower(const Activation& op, const Context& c) {
  Lowering& l = c.lowering;
  if (const std::optional<Eltwise> eltwise = EltwiseOf(op)) {
    const View x = l.NativeReal(c.in(0));
    const auto pd = Forward(l, eltwise->forward, x.desc, *eltwise);
    l.Run<dnnl::eltwise_forward>(
        pd, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, l.PutOver(c.out(0), c.in(0), x)}});
    return;
  }
  const BufferId x_buffer = l.GetPlain(c.in(0)).buffer, y_buffer = l.PutPlain(c.out(0)).buffer;
  l.Call([=, count = ElementCount(l.graph().shape(c.in(0)))](const Buffers& buffers, const Step&) {
    const float* x = static_cast<const float*>(buffers[x_buffer]);
    float* y = static_cast<float*>(buffers[y_buffer]);
#pragma omp parallel for
    for (int64_t i = 0; i < count; ++i) y[i] = ActivationOf(op, x[i]);
  });
}

void Lower(const ActivationBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const Activation& forward = op.forward;
  if (const std::optional<Eltwise> eltwise = EltwiseOf(forward)) {
    const View of = l.NativeReal(c.in(0));
    const View dy = l.Get(c.in(1), of.desc);
    const dnnl::eltwise_backward::primitive_desc pd(
        {eltwise->backward, of.desc, of.desc, eltwise->alpha, eltwise->beta}, PlannedScratchpad(),
        l.engine(), Forward(l, eltwise->backward, of.desc, *eltwise));
    l.Run<dnnl::eltwise_backward>(pd, {{forward.FromOutput() ? DNNL_ARG_DST : DNNL_ARG_SRC, of},
                                       {DNNL_ARG_DIFF_DST, dy},
                                       {DNNL_ARG_DIFF_SRC, l.PutOver(c.out(0), c.in(1), dy)}});
    return;
  }
  const BufferId of_buffer = l.GetPlain(c.in(0)).buffer, dy_buffer = l.GetPlain(c.in(1)).buffer;
  const BufferId dx_buffer = l.PutPlain(c.out(0)).buffer;
  l.Call([=, count = ElementCount(l.graph().shape(c.in(0)))](const Buffers& buffers, const Step&) {
    const float* of = static_cast<const float*>(buffers[of_buffer]);
    const float* dy = static_cast<const float*>(buffers[dy_buffer]);
    float* dx = static_cast<float*>(buffers[dx_buffer]);
#pragma omp parallel for
    for (int64_t i = 0; i < count; ++i) dx[i] = dy[i] * ActivationSlope(forward, of[i]);
  });
}

}  // namespace psgd::onednn
