// Every op there is, forward and backward. An op is plain data; engine/ops/ has its shape and
// gradient rules, reference/ and onednn/ its kernels, under the same file names.
#pragma once

#include <variant>

#include "engine/ops/batchnorm.h"
#include "engine/ops/conv2d.h"
#include "engine/ops/dense.h"
#include "engine/ops/dropout.h"
#include "engine/ops/element_loss.h"
#include "engine/ops/embedding.h"
#include "engine/ops/layernorm.h"
#include "engine/ops/matmul.h"
#include "engine/ops/pool.h"
#include "engine/ops/recurrent.h"
#include "engine/ops/relu.h"
#include "engine/ops/reshape.h"
#include "engine/ops/row_bias.h"
#include "engine/ops/softmax.h"
#include "engine/ops/softmax_cross_entropy.h"
#include "engine/ops/sum.h"
#include "engine/ops/transpose.h"

namespace psgd {

using Op = std::variant<Conv2d, Conv2dBackwardData, Conv2dBackwardWeights, Pool, PoolBackward,
                        Dense, DenseBackwardData, DenseBackwardWeights, Relu, ReluBackward,
                        BatchNorm, BatchNormInference, BatchNormBackward, Dropout, DropoutBackward,
                        Reshape, Sum, SoftmaxCrossEntropy, SoftmaxCrossEntropyBackward, RowBias,
                        RowBiasBackward, LayerNorm, LayerNormBackward, MatMul, Softmax,
                        SoftmaxBackward, Transpose, ElementLoss, ElementLossBackward, Embedding,
                        EmbeddingBackward, Recurrent, RecurrentBackward>;

}  // namespace psgd
