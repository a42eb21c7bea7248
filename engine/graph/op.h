// All ops, forward and backward. An op is plain data. engine/ops/ has its shape and gradient rules;
// reference/, onednn/ and cudnn/ have its kernels, most under the same file names.
#pragma once

#include <variant>

#include "engine/ops/activation.h"
#include "engine/ops/adaptive_average_pool.h"
#include "engine/ops/axis_map.h"
#include "engine/ops/batchnorm.h"
#include "engine/ops/bias.h"
#include "engine/ops/concat.h"
#include "engine/ops/constant.h"
#include "engine/ops/conv2d.h"
#include "engine/ops/dense.h"
#include "engine/ops/dropout.h"
#include "engine/ops/element_loss.h"
#include "engine/ops/embedding.h"
#include "engine/ops/keep_largest.h"
#include "engine/ops/layernorm.h"
#include "engine/ops/lengths.h"
#include "engine/ops/local_response_norm.h"
#include "engine/ops/matmul.h"
#include "engine/ops/mul.h"
#include "engine/ops/pad.h"
#include "engine/ops/pool.h"
#include "engine/ops/recurrent.h"
#include "engine/ops/relu.h"
#include "engine/ops/reshape.h"
#include "engine/ops/row_bias.h"
#include "engine/ops/select.h"
#include "engine/ops/slice.h"
#include "engine/ops/softmax.h"
#include "engine/ops/softmax_cross_entropy.h"
#include "engine/ops/sum.h"
#include "engine/ops/transpose.h"
#include "engine/ops/upsample.h"

namespace psgd {

// clang-format off
// X(Bias) X(BiasBackward) and so on.
#define PSGD_OPS(X) \
  /* Layers with weights. */ \
  X(Bias) X(BiasBackward) X(Conv2d) X(Conv2dBackwardData) X(Conv2dBackwardWeights) X(Dense) \
  X(DenseBackwardData) X(DenseBackwardWeights) X(Embedding) X(EmbeddingBackward) \
  X(MatMul) X(Recurrent) X(RecurrentBackward) X(RowBias) X(RowBiasBackward) \
  /* Windows over images. */ \
  X(AdaptiveAveragePool) X(AdaptiveAveragePoolBackward) X(Pool) X(PoolBackward) X(Upsample) \
  X(UpsampleBackward) \
  /* Normalization. */ \
  X(BatchNorm) X(BatchNormInference) X(BatchNormBackward) X(LayerNorm) X(LayerNormBackward) \
  X(LocalResponseNorm) X(LocalResponseNormBackward) X(Softmax) X(SoftmaxBackward) \
  /* Element by element. */ \
  X(Activation) X(ActivationBackward) X(Dropout) X(DropoutBackward) X(KeepLargest) X(Mul) \
  X(Relu) X(ReluBackward) X(Select) X(Sum) \
  /* Move or make elements. */ \
  X(AxisMap) X(Concat) X(Constant) X(Pad) X(Reshape) X(Slice) X(Transpose) \
  /* Tokens. */ \
  X(Lengths) \
  /* Losses. */ \
  X(ElementLoss) X(ElementLossBackward) X(SoftmaxCrossEntropy) X(SoftmaxCrossEntropyBackward)
// clang-format on

template <typename First, typename... Ops>
struct VariantAfter {
  using type = std::variant<Ops...>;
};
#define PSGD_NEXT(Op) , Op
using Op = VariantAfter<void PSGD_OPS(PSGD_NEXT)>::type;
#undef PSGD_NEXT

}  // namespace psgd
