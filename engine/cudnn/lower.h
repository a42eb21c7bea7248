// One function an op: puts the launches that compute a node. An error says what this backend, the
// device or a library cannot do.
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

// Ops that have no kernel here yet.
template <typename AnyOp>
absl::Status Lower(const AnyOp&, const Context& c) {
  return absl::UnimplementedError("the cudnn backend has no kernel for this op; use --engine onednn");
}

}  // namespace psgd::cudnn
