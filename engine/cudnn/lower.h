// One function an op: it adds the launches that compute a node. An error says what this backend,
// the device or a library cannot do.
#pragma once

#include "engine/cudnn/lowering.h"

namespace psgd::cudnn {

struct Context {
  const Node& node;
  Lowering& lowering;
  const BackendOptions& options;

  TensorId in(int i) const { return node.inputs[i]; }
  TensorId out(int i) const { return node.outputs[i]; }
  bool has_in(size_t i) const { return i < node.inputs.size(); }
  bool has_out(size_t i) const { return i < node.outputs.size(); }
};

absl::Status Lower(const Activation& op, const Context& c);
absl::Status Lower(const ActivationBackward& op, const Context& c);
absl::Status Lower(const AdaptiveAveragePool& op, const Context& c);
absl::Status Lower(const AdaptiveAveragePoolBackward& op, const Context& c);
absl::Status Lower(const Bias& op, const Context& c);
absl::Status Lower(const BiasBackward& op, const Context& c);
absl::Status Lower(const Concat& op, const Context& c);
absl::Status Lower(const Constant& op, const Context& c);
absl::Status Lower(const Lengths& op, const Context& c);
absl::Status Lower(const LocalResponseNorm& op, const Context& c);
absl::Status Lower(const LocalResponseNormBackward& op, const Context& c);
absl::Status Lower(const KeepLargest& op, const Context& c);
absl::Status Lower(const Mul& op, const Context& c);
absl::Status Lower(const Pad& op, const Context& c);
absl::Status Lower(const Slice& op, const Context& c);
absl::Status Lower(const Upsample& op, const Context& c);
absl::Status Lower(const UpsampleBackward& op, const Context& c);
absl::Status Lower(const Conv2d& op, const Context& c);
absl::Status Lower(const Conv2dBackwardData& op, const Context& c);
absl::Status Lower(const Conv2dBackwardWeights& op, const Context& c);
absl::Status Lower(const Pool& op, const Context& c);
absl::Status Lower(const PoolBackward& op, const Context& c);
absl::Status Lower(const Dense& op, const Context& c);
absl::Status Lower(const DenseBackwardData& op, const Context& c);
absl::Status Lower(const DenseBackwardWeights& op, const Context& c);
absl::Status Lower(const Relu& op, const Context& c);
absl::Status Lower(const ReluBackward& op, const Context& c);
absl::Status Lower(const BatchNorm& op, const Context& c);
absl::Status Lower(const BatchNormInference& op, const Context& c);
absl::Status Lower(const BatchNormBackward& op, const Context& c);
absl::Status Lower(const Dropout& op, const Context& c);
absl::Status Lower(const DropoutBackward& op, const Context& c);
absl::Status Lower(const Reshape& op, const Context& c);
absl::Status Lower(const Sum& op, const Context& c);
absl::Status Lower(const SoftmaxCrossEntropy& op, const Context& c);
absl::Status Lower(const SoftmaxCrossEntropyBackward& op, const Context& c);
absl::Status Lower(const RowBias& op, const Context& c);
absl::Status Lower(const RowBiasBackward& op, const Context& c);
absl::Status Lower(const LayerNorm& op, const Context& c);
absl::Status Lower(const LayerNormBackward& op, const Context& c);
absl::Status Lower(const MatMul& op, const Context& c);
absl::Status Lower(const Softmax& op, const Context& c);
absl::Status Lower(const SoftmaxBackward& op, const Context& c);
absl::Status Lower(const Transpose& op, const Context& c);
absl::Status Lower(const ElementLoss& op, const Context& c);
absl::Status Lower(const ElementLossBackward& op, const Context& c);
absl::Status Lower(const Embedding& op, const Context& c);
absl::Status Lower(const EmbeddingBackward& op, const Context& c);
absl::Status Lower(const EmbeddingBag& op, const Context& c);
absl::Status Lower(const EmbeddingBagBackward& op, const Context& c);
absl::Status Lower(const Recurrent& op, const Context& c);
absl::Status Lower(const RecurrentBackward& op, const Context& c);

}  // namespace psgd::cudnn
