// One function an op: it adds the launches that compute a node. An error says what this backend,
// the device or a library cannot do.
#pragma once

#include "engine/cudnn/chain.h"
#include "engine/cudnn/lowering.h"

namespace psgd::cudnn {

struct Context {
  const Node& node;
  Lowering& lowering;
  const BackendOptions& options;

  bool IsLastOf(const Chain& chain) const { return lowering.index() == chain.nodes.back(); }
  TensorId in(int i) const { return node.inputs[i]; }
  TensorId out(int i) const { return node.outputs[i]; }
  bool has_in(size_t i) const { return i < node.inputs.size(); }
  bool has_out(size_t i) const { return i < node.outputs.size(); }
};

void Lower(const Activation& op, const Context& c);
void Lower(const ActivationBackward& op, const Context& c);
void Lower(const AdaptiveAveragePool& op, const Context& c);
void Lower(const AdaptiveAveragePoolBackward& op, const Context& c);
void Lower(const AxisMap& op, const Context& c);
void Lower(const Bias& op, const Context& c);
void Lower(const BiasBackward& op, const Context& c);
absl::Status Lower(const Concat& op, const Context& c);
void Lower(const Constant& op, const Context& c);
void Lower(const Lengths& op, const Context& c);
void Lower(const LocalResponseNorm& op, const Context& c);
void Lower(const LocalResponseNormBackward& op, const Context& c);
void Lower(const KeepLargest& op, const Context& c);
void Lower(const Mul& op, const Context& c);
absl::Status Lower(const Pad& op, const Context& c);
void Lower(const Select& op, const Context& c);
absl::Status Lower(const Slice& op, const Context& c);
void Lower(const Upsample& op, const Context& c);
void Lower(const UpsampleBackward& op, const Context& c);
absl::Status Lower(const Conv2d& op, const Context& c);
absl::Status Lower(const Conv2dBackwardData& op, const Context& c);
absl::Status Lower(const Conv2dBackwardWeights& op, const Context& c);
absl::Status Lower(const Pool& op, const Context& c);
void Lower(const PoolBackward& op, const Context& c);
absl::Status Lower(const Dense& op, const Context& c);
void Lower(const DenseBackwardData& op, const Context& c);
absl::Status Lower(const DenseBackwardWeights& op, const Context& c);
void Lower(const Relu& op, const Context& c);
void Lower(const ReluBackward& op, const Context& c);
void Lower(const BatchNorm& op, const Context& c);
void Lower(const BatchNormInference& op, const Context& c);
void Lower(const BatchNormBackward& op, const Context& c);
void Lower(const Dropout& op, const Context& c);
void Lower(const DropoutBackward& op, const Context& c);
void Lower(const Reshape& op, const Context& c);
void Lower(const Sum& op, const Context& c);
void Lower(const SoftmaxCrossEntropy& op, const Context& c);
void Lower(const SoftmaxCrossEntropyBackward& op, const Context& c);
void Lower(const RowBias& op, const Context& c);
void Lower(const RowBiasBackward& op, const Context& c);
void Lower(const LayerNorm& op, const Context& c);
void Lower(const LayerNormBackward& op, const Context& c);
void Lower(const MatMul& op, const Context& c);
void Lower(const Softmax& op, const Context& c);
void Lower(const SoftmaxBackward& op, const Context& c);
absl::Status Lower(const Transpose& op, const Context& c);
void Lower(const ElementLoss& op, const Context& c);
void Lower(const ElementLossBackward& op, const Context& c);
absl::Status Lower(const Embedding& op, const Context& c);
absl::Status Lower(const EmbeddingBackward& op, const Context& c);
void Lower(const Recurrent& op, const Context& c);
void Lower(const RecurrentBackward& op, const Context& c);

// Lower a node of a chain that has a batch norm, or that begins with a sum.
void LowerNormChain(const Chain& chain, const Context& c);
void LowerSumChain(const Chain& chain, const Context& c);

// Adds a bias to each row of the matrix y, in place.
void AddBiasToRows(const Context& c, int64_t rows, int64_t columns, TensorId bias, const View& y);
// Writes the sums of a matrix's columns to `sums`, in fp32.
void PutColumnSums(const Context& c, int64_t rows, int64_t columns, BufferId matrix, TensorId sums);

}  // namespace psgd::cudnn
