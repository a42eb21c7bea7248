// All ops, forward and backward. An op is plain data. engine/ops/ has its shape and gradient rules;
// reference/, onednn/ and cudnn/ have its kernels, under the same file names.
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
#include "engine/ops/embedding_bag.h"
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
#include "engine/ops/slice.h"
#include "engine/ops/softmax.h"
#include "engine/ops/softmax_cross_entropy.h"
#include "engine/ops/sum.h"
#include "engine/ops/transpose.h"
#include "engine/ops/upsample.h"

namespace psgd {

using Op = std::variant<
    // Layers with weights.
    Bias, BiasBackward, Conv2d, Conv2dBackwardData, Conv2dBackwardWeights, Dense, DenseBackwardData,
    DenseBackwardWeights, Embedding, EmbeddingBackward, EmbeddingBag, EmbeddingBagBackward, MatMul,
    Recurrent, RecurrentBackward, RowBias, RowBiasBackward,
    // Windows over images.
    AdaptiveAveragePool, AdaptiveAveragePoolBackward, Pool, PoolBackward, Upsample,
    UpsampleBackward,
    // Normalization.
    BatchNorm, BatchNormInference, BatchNormBackward, LayerNorm, LayerNormBackward,
    LocalResponseNorm, LocalResponseNormBackward, Softmax, SoftmaxBackward,
    // Element by element.
    Activation, ActivationBackward, Dropout, DropoutBackward, KeepLargest, Mul, Relu, ReluBackward,
    Sum,
    // Move or make elements.
    AxisMap, Concat, Constant, Pad, Reshape, Slice, Transpose,
    // Tokens.
    Lengths,
    // Losses.
    ElementLoss, ElementLossBackward, SoftmaxCrossEntropy, SoftmaxCrossEntropyBackward>;

}  // namespace psgd
