// One function an op: plain loops that follow the formula in the op's header. Sums are always in
// double, so that the fp32 variant is as exact as fp32 storage allows.
#pragma once

#include "engine/reference/operands.h"

namespace psgd::reference {

template <typename T>
void Compute(const Activation& op, const Operands<T>& t);
template <typename T>
void Compute(const ActivationBackward& op, const Operands<T>& t);
template <typename T>
void Compute(const AdaptiveAveragePool& op, const Operands<T>& t);
template <typename T>
void Compute(const AdaptiveAveragePoolBackward& op, const Operands<T>& t);
template <typename T>
void Compute(const AxisMap& op, const Operands<T>& t);
template <typename T>
void Compute(const Bias& op, const Operands<T>& t);
template <typename T>
void Compute(const BiasBackward& op, const Operands<T>& t);
template <typename T>
void Compute(const Concat& op, const Operands<T>& t);
template <typename T>
void Compute(const Constant& op, const Operands<T>& t);
template <typename T>
void Compute(const LocalResponseNorm& op, const Operands<T>& t);
template <typename T>
void Compute(const LocalResponseNormBackward& op, const Operands<T>& t);
template <typename T>
void Compute(const KeepLargest& op, const Operands<T>& t);
template <typename T>
void Compute(const Mul& op, const Operands<T>& t);
template <typename T>
void Compute(const Pad& op, const Operands<T>& t);
template <typename T>
void Compute(const Slice& op, const Operands<T>& t);
template <typename T>
void Compute(const Upsample& op, const Operands<T>& t);
template <typename T>
void Compute(const UpsampleBackward& op, const Operands<T>& t);

template <typename T>
void Compute(const Conv2d& op, const Operands<T>& t);
template <typename T>
void Compute(const Conv2dBackwardData& op, const Operands<T>& t);
template <typename T>
void Compute(const Conv2dBackwardWeights& op, const Operands<T>& t);
template <typename T>
void Compute(const Pool& op, const Operands<T>& t);
template <typename T>
void Compute(const PoolBackward& op, const Operands<T>& t);
template <typename T>
void Compute(const Dense& op, const Operands<T>& t);
template <typename T>
void Compute(const DenseBackwardData& op, const Operands<T>& t);
template <typename T>
void Compute(const DenseBackwardWeights& op, const Operands<T>& t);
template <typename T>
void Compute(const Relu& op, const Operands<T>& t);
template <typename T>
void Compute(const ReluBackward& op, const Operands<T>& t);
template <typename T>
void Compute(const BatchNorm& op, const Operands<T>& t);
template <typename T>
void Compute(const BatchNormInference& op, const Operands<T>& t);
template <typename T>
void Compute(const BatchNormBackward& op, const Operands<T>& t);
template <typename T>
void Compute(const Dropout& op, const Operands<T>& t);
template <typename T>
void Compute(const DropoutBackward& op, const Operands<T>& t);
template <typename T>
void Compute(const Reshape& op, const Operands<T>& t);
template <typename T>
void Compute(const Sum& op, const Operands<T>& t);
template <typename T>
void Compute(const SoftmaxCrossEntropy& op, const Operands<T>& t);
template <typename T>
void Compute(const SoftmaxCrossEntropyBackward& op, const Operands<T>& t);
template <typename T>
void Compute(const RowBias& op, const Operands<T>& t);
template <typename T>
void Compute(const RowBiasBackward& op, const Operands<T>& t);
template <typename T>
void Compute(const LayerNorm& op, const Operands<T>& t);
template <typename T>
void Compute(const LayerNormBackward& op, const Operands<T>& t);
template <typename T>
void Compute(const MatMul& op, const Operands<T>& t);
template <typename T>
void Compute(const Softmax& op, const Operands<T>& t);
template <typename T>
void Compute(const SoftmaxBackward& op, const Operands<T>& t);
template <typename T>
void Compute(const Transpose& op, const Operands<T>& t);
template <typename T>
void Compute(const ElementLoss& op, const Operands<T>& t);
template <typename T>
void Compute(const ElementLossBackward& op, const Operands<T>& t);
template <typename T>
void Compute(const Embedding& op, const Operands<T>& t);
template <typename T>
void Compute(const EmbeddingBackward& op, const Operands<T>& t);
template <typename T>
void Compute(const EmbeddingBag& op, const Operands<T>& t);
template <typename T>
void Compute(const EmbeddingBagBackward& op, const Operands<T>& t);
template <typename T>
void Compute(const Lengths& op, const Operands<T>& t);
template <typename T>
void Compute(const Recurrent& op, const Operands<T>& t);
template <typename T>
void Compute(const RecurrentBackward& op, const Operands<T>& t);

}  // namespace psgd::reference

// At the end of an op's file: instantiates its function for both types.
#define PSGD_REFERENCE_OP(Op)                                      \
  template void Compute<float>(const Op&, const Operands<float>&); \
  template void Compute<double>(const Op&, const Operands<double>&)
