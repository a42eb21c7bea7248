#include "engine/onednn/lower.h"

namespace psgd::onednn {
namespace {

using dnnl::normalization_flags;
using dnnl::prop_kind;

const normalization_flags kLayerScaleAndShift =
    normalization_flags::use_scale | normalization_flags::use_shift;

// Views x as a matrix of rows of the last axis.
Desc Matrix(const Lowering& l, TensorId x) {
  const Shape& shape = l.graph().shape(x);
  return Desc({ElementCount(shape) / shape.back(), shape.back()}, l.real(), Tag::ab);
}

dnnl::layer_normalization_forward::primitive_desc Forward(const Lowering& l, const Desc& x,
                                                          const Desc& rows, float epsilon) {
  return {{prop_kind::forward_training, x, rows, epsilon, kLayerScaleAndShift},
          PlannedScratchpad(),
          l.engine()};
}

}  // namespace

void Lower(const LayerNorm& op, const Context& c) {
  Lowering& l = c.lowering;
  const Desc matrix = Matrix(l, c.in(0));
  const Desc rows({matrix.dims()[0]}, Type::f32, Tag::a);
  const auto pd = Forward(l, matrix, rows, op.epsilon);
  l.Run<dnnl::layer_normalization_forward>(
      pd, {{DNNL_ARG_SRC, {matrix, l.GetPlain(c.in(0), l.real()).buffer}},
           {DNNL_ARG_SCALE, l.GetPlain(c.in(1))},
           {DNNL_ARG_SHIFT, l.GetPlain(c.in(2))},
           {DNNL_ARG_DST, {matrix, l.PutPlain(c.out(0), l.real()).buffer}},
           {DNNL_ARG_MEAN, {rows, l.PutPlain(c.out(1)).buffer}},
           {DNNL_ARG_VARIANCE, {rows, l.PutPlain(c.out(2)).buffer}}});
}

void Lower(const LayerNormBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const float epsilon = op.forward.epsilon;
  const Desc matrix = Matrix(l, c.in(0));
  const Desc rows({matrix.dims()[0]}, Type::f32, Tag::a);
  const dnnl::layer_normalization_backward::primitive_desc pd(
      {prop_kind::backward, matrix, matrix, rows, epsilon, kLayerScaleAndShift},
      PlannedScratchpad(), l.engine(), Forward(l, matrix, rows, epsilon));
  // oneDNN always writes dx. It also takes a shift, but no gradient depends on it.
  const View dx =
      c.has_out(2) ? View{matrix, l.PutPlain(c.out(2), l.real()).buffer} : l.Temporary(matrix);
  const View gamma = l.GetPlain(c.in(1));
  l.Run<dnnl::layer_normalization_backward>(
      pd, {{DNNL_ARG_SRC, {matrix, l.GetPlain(c.in(0), l.real()).buffer}},
           {DNNL_ARG_SCALE, gamma},
           {DNNL_ARG_SHIFT, gamma},
           {DNNL_ARG_MEAN, {rows, l.GetPlain(c.in(2)).buffer}},
           {DNNL_ARG_VARIANCE, {rows, l.GetPlain(c.in(3)).buffer}},
           {DNNL_ARG_DIFF_DST, {matrix, l.GetPlain(c.in(4), l.real()).buffer}},
           {DNNL_ARG_DIFF_SCALE, l.PutPlain(c.out(0))},
           {DNNL_ARG_DIFF_SHIFT, l.PutPlain(c.out(1))},
           {DNNL_ARG_DIFF_SRC, dx}});
}

}  // namespace psgd::onednn
