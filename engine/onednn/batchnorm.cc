#include "engine/onednn/lower.h"

namespace psgd::onednn {
namespace {

using dnnl::normalization_flags;
using dnnl::prop_kind;

const normalization_flags kScaleAndShift =
    normalization_flags::use_scale | normalization_flags::use_shift;

dnnl::batch_normalization_forward::primitive_desc Forward(const Lowering& l, prop_kind kind,
                                                          const Desc& x, float epsilon,
                                                          normalization_flags flags) {
  return {{kind, x, epsilon, flags}, PlannedScratchpad(), l.engine()};
}

// Computes the changes of the running statistics (see ops/batchnorm.h).
HostCall StatisticDeltas(float momentum, int64_t channels, double count, BufferId mean,
                         BufferId var, BufferId running_mean, BufferId running_var,
                         BufferId mean_delta, BufferId var_delta) {
  const float unbiased = static_cast<float>(count / (count - 1));
  return [=](const Buffers& buffers, const Step&) {
    const auto at = [&](BufferId id) { return static_cast<float*>(buffers[id]); };
    for (int64_t c = 0; c < channels; ++c) {
      at(mean_delta)[c] = momentum * (at(mean)[c] - at(running_mean)[c]);
      at(var_delta)[c] = momentum * (at(var)[c] * unbiased - at(running_var)[c]);
    }
  };
}

}  // namespace

void Lower(const BatchNorm& op, const Context& c) {
  Lowering& l = c.lowering;
  const View x = l.NativeReal(c.in(0));
  const auto pd = Forward(l, prop_kind::forward_training, x.desc, op.epsilon, kScaleAndShift);
  const View mean = l.PutPlain(c.out(1)), var = l.PutPlain(c.out(2));
  l.Run<dnnl::batch_normalization_forward>(pd, {{DNNL_ARG_SRC, x},
                                                {DNNL_ARG_SCALE, l.GetPlain(c.in(1))},
                                                {DNNL_ARG_SHIFT, l.GetPlain(c.in(2))},
                                                {DNNL_ARG_DST, l.Put(c.out(0), pd.dst_desc())},
                                                {DNNL_ARG_MEAN, mean},
                                                {DNNL_ARG_VARIANCE, var}});
  const Dims dims = l.dims(c.in(0));
  l.Call(StatisticDeltas(op.momentum, dims[1], static_cast<double>(dims[0] * dims[2] * dims[3]),
                         mean.buffer, var.buffer, l.GetPlain(c.in(3)).buffer,
                         l.GetPlain(c.in(4)).buffer, l.PutPlain(c.out(3)).buffer,
                         l.PutPlain(c.out(4)).buffer));
}

void Lower(const BatchNormInference& op, const Context& c) {
  Lowering& l = c.lowering;
  const View x = l.NativeReal(c.in(0));
  const auto pd = Forward(l, prop_kind::forward_inference, x.desc, op.epsilon,
                          kScaleAndShift | normalization_flags::use_global_stats);
  l.Run<dnnl::batch_normalization_forward>(pd, {{DNNL_ARG_SRC, x},
                                                {DNNL_ARG_SCALE, l.GetPlain(c.in(1))},
                                                {DNNL_ARG_SHIFT, l.GetPlain(c.in(2))},
                                                {DNNL_ARG_MEAN, l.GetPlain(c.in(3))},
                                                {DNNL_ARG_VARIANCE, l.GetPlain(c.in(4))},
                                                {DNNL_ARG_DST, l.Put(c.out(0), pd.dst_desc())}});
}

void Lower(const BatchNormBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const View x = l.NativeReal(c.in(0));
  const float epsilon = op.forward.epsilon;
  const auto hint = Forward(l, prop_kind::forward_training, x.desc, epsilon, kScaleAndShift);
  const dnnl::batch_normalization_backward::primitive_desc pd(
      {prop_kind::backward, x.desc, x.desc, epsilon, kScaleAndShift}, PlannedScratchpad(),
      l.engine(), hint);
  const View dy = l.Get(c.in(4), pd.diff_dst_desc());
  // oneDNN always writes dx. An unwanted dx gets memory of its own, because other nodes may read
  // dy.
  const Desc dx_desc = pd.diff_src_desc();
  const View dx = c.has_out(2) ? l.Put(c.out(2), dx_desc) : l.Temporary(dx_desc);
  const View gamma = l.GetPlain(c.in(1));
  // oneDNN also takes a shift, but no gradient depends on it, so any channel values will do.
  l.Run<dnnl::batch_normalization_backward>(pd, {{DNNL_ARG_SRC, x},
                                                 {DNNL_ARG_SCALE, gamma},
                                                 {DNNL_ARG_SHIFT, gamma},
                                                 {DNNL_ARG_MEAN, l.GetPlain(c.in(2))},
                                                 {DNNL_ARG_VARIANCE, l.GetPlain(c.in(3))},
                                                 {DNNL_ARG_DIFF_DST, dy},
                                                 {DNNL_ARG_DIFF_SCALE, l.PutPlain(c.out(0))},
                                                 {DNNL_ARG_DIFF_SHIFT, l.PutPlain(c.out(1))},
                                                 {DNNL_ARG_DIFF_SRC, dx}});
}

}  // namespace psgd::onednn
