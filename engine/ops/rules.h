// The rules of all ops that a network is built from. Add... checks shapes, makes the output and
// appends the node. AddGradient appends the nodes of the reverse pass.
#pragma once

#include <string>

#include "common/status.h"
#include "engine/graph/differentiate.h"
#include "engine/graph/graph.h"
#include "engine/ops/attention.h"

namespace psgd {

absl::StatusOr<TensorId> AddActivation(Graph* graph, const std::string& name, const Activation& op,
                                       TensorId x);
// Appends a Pool if all windows are equal.
absl::StatusOr<TensorId> AddAdaptiveAveragePool(Graph* graph, const std::string& name,
                                                const Extent& size, TensorId x);
absl::StatusOr<TensorId> AddAxisMap(Graph* graph, const std::string& name, int axis,
                                    AxisMatrix matrix, TensorId x);
absl::StatusOr<TensorId> AddBias(Graph* graph, const std::string& name, TensorId x, TensorId bias);
absl::StatusOr<TensorId> AddConcat(Graph* graph, const std::string& name, const Concat& op,
                                   std::vector<TensorId> parts);
absl::StatusOr<TensorId> AddConstant(Graph* graph, const std::string& name, const Constant& op,
                                     Shape shape);
absl::StatusOr<TensorId> AddLocalResponseNorm(Graph* graph, const std::string& name,
                                              const LocalResponseNorm& op, TensorId x);
absl::StatusOr<TensorId> AddMul(Graph* graph, const std::string& name, TensorId a, TensorId b);
absl::StatusOr<TensorId> AddPad(Graph* graph, const std::string& name, const Pad& op,
                                const Shape& after, TensorId x);
// `a` and `b` are kNoTensor where `op` has a number.
absl::StatusOr<TensorId> AddSelect(Graph* graph, const std::string& name, const Select& op,
                                   TensorId condition, TensorId a, TensorId b);
absl::StatusOr<TensorId> AddSlice(Graph* graph, const std::string& name, const Slice& op,
                                  int64_t length, TensorId x);
absl::StatusOr<TensorId> AddUpsample(Graph* graph, const std::string& name, const Upsample& op,
                                     TensorId x);

// `bias` may be kNoTensor, here and below.
absl::StatusOr<TensorId> AddConv2d(Graph* graph, const std::string& name, const Conv2d& op,
                                   TensorId x, TensorId weight, TensorId bias);
// `op`: the convolution to transpose.
absl::StatusOr<TensorId> AddConvTranspose2d(Graph* graph, const std::string& name, const Conv2d& op,
                                            const Extent& output_pad, TensorId x, TensorId weight,
                                            TensorId bias);
absl::StatusOr<TensorId> AddPool(Graph* graph, const std::string& name, const Pool& op, TensorId x);
absl::StatusOr<TensorId> AddDense(Graph* graph, const std::string& name, TensorId x,
                                  TensorId weight, TensorId bias);
absl::StatusOr<TensorId> AddRelu(Graph* graph, const std::string& name, TensorId x);

// Tensors with one value a channel.
struct BatchNormParameters {
  TensorId gamma, beta, running_mean, running_var;
};
struct BatchNormOutputs {
  TensorId y, mean_delta, var_delta;
};
absl::StatusOr<BatchNormOutputs> AddBatchNorm(Graph* graph, const std::string& name,
                                              const BatchNorm& op, TensorId x,
                                              const BatchNormParameters& parameters);
absl::StatusOr<TensorId> AddBatchNormInference(Graph* graph, const std::string& name,
                                               const BatchNormInference& op, TensorId x,
                                               const BatchNormParameters& parameters);
absl::StatusOr<TensorId> AddDropout(Graph* graph, const std::string& name, const Dropout& op,
                                    TensorId x);
absl::StatusOr<TensorId> AddReshape(Graph* graph, const std::string& name, TensorId x, Shape shape);
absl::StatusOr<TensorId> AddSum(Graph* graph, const std::string& name, std::vector<TensorId> terms);
absl::StatusOr<TensorId> AddRowBias(Graph* graph, const std::string& name, TensorId x,
                                    TensorId bias);
absl::StatusOr<TensorId> AddLayerNorm(Graph* graph, const std::string& name, const LayerNorm& op,
                                      TensorId x, TensorId gamma, TensorId beta);
absl::StatusOr<TensorId> AddMatMul(Graph* graph, const std::string& name, const MatMul& op,
                                   TensorId a, TensorId b);
// `lengths` may be kNoTensor.
absl::StatusOr<TensorId> AddSoftmax(Graph* graph, const std::string& name, const Softmax& op,
                                    TensorId x, TensorId lengths);
absl::StatusOr<TensorId> AddTranspose(Graph* graph, const std::string& name, const Transpose& op,
                                      TensorId x);
absl::StatusOr<TensorId> AddEmbedding(Graph* graph, const std::string& name, TensorId index,
                                      TensorId weight);
absl::StatusOr<TensorId> AddLengths(Graph* graph, const std::string& name, const Lengths& op,
                                    TensorId x);
// No gradient reaches `value`.
absl::StatusOr<TensorId> AddEmbeddingBag(Graph* graph, const std::string& name, TensorId index,
                                         TensorId value, TensorId weight);
// `lengths` may be kNoTensor.
absl::StatusOr<TensorId> AddAttention(Graph* graph, const std::string& name, const Attention& op,
                                      TensorId q, TensorId k, TensorId v, TensorId lengths);

struct RecurrentParameters {
  TensorId weight_ih, weight_hh, bias_ih, bias_hh;
};
absl::StatusOr<TensorId> AddRecurrent(Graph* graph, const std::string& name, const Recurrent& op,
                                      TensorId x, const RecurrentParameters& parameters);

// Losses return an external tensor of three doubles: loss sum, correct, counted. CheckLabels checks
// the shapes that they take.
absl::Status CheckLabels(const Graph& graph, const std::string& name, TensorId x, TensorId labels);
absl::StatusOr<TensorId> AddSoftmaxCrossEntropy(Graph* graph, const std::string& name,
                                                const SoftmaxCrossEntropy& op, TensorId x,
                                                TensorId labels);
absl::StatusOr<TensorId> AddElementLoss(Graph* graph, const std::string& name,
                                        const ElementLoss& op, TensorId x, TensorId labels,
                                        TensorId targets = kNoTensor);

// Add the gradient of a bias inside another op whose weights want no gradient. Sums over all axes
// but the channels (AddBiasGradient), or but the last axes (AddRowBiasGradient).
void AddBiasGradient(const Node& node, TensorId dy, TensorId bias, GradientTape* tape);
void AddRowBiasGradient(const Node& node, TensorId dy, TensorId bias, GradientTape* tape);

// Gradient rules. REQUIRES: the first output has a gradient, unless the op is a loss.
void AddGradient(const Activation& op, const Node& node, GradientTape* tape);
void AddGradient(const AdaptiveAveragePool& op, const Node& node, GradientTape* tape);
void AddGradient(const AxisMap& op, const Node& node, GradientTape* tape);
void AddGradient(const Bias& op, const Node& node, GradientTape* tape);
void AddGradient(const Concat& op, const Node& node, GradientTape* tape);
void AddGradient(const LocalResponseNorm& op, const Node& node, GradientTape* tape);
void AddGradient(const Mul& op, const Node& node, GradientTape* tape);
void AddGradient(const Pad& op, const Node& node, GradientTape* tape);
void AddGradient(const Select& op, const Node& node, GradientTape* tape);
void AddGradient(const Slice& op, const Node& node, GradientTape* tape);
void AddGradient(const Upsample& op, const Node& node, GradientTape* tape);

void AddGradient(const Conv2d& op, const Node& node, GradientTape* tape);
void AddGradient(const Conv2dBackwardData& op, const Node& node, GradientTape* tape);
void AddGradient(const Pool& op, const Node& node, GradientTape* tape);
void AddGradient(const Dense& op, const Node& node, GradientTape* tape);
void AddGradient(const Relu& op, const Node& node, GradientTape* tape);
void AddGradient(const BatchNorm& op, const Node& node, GradientTape* tape);
void AddGradient(const Dropout& op, const Node& node, GradientTape* tape);
void AddGradient(const Reshape& op, const Node& node, GradientTape* tape);
void AddGradient(const Sum& op, const Node& node, GradientTape* tape);
void AddGradient(const SoftmaxCrossEntropy& op, const Node& node, GradientTape* tape);
void AddGradient(const RowBias& op, const Node& node, GradientTape* tape);
void AddGradient(const LayerNorm& op, const Node& node, GradientTape* tape);
void AddGradient(const MatMul& op, const Node& node, GradientTape* tape);
void AddGradient(const Softmax& op, const Node& node, GradientTape* tape);
void AddGradient(const Transpose& op, const Node& node, GradientTape* tape);
void AddGradient(const ElementLoss& op, const Node& node, GradientTape* tape);
void AddGradient(const Embedding& op, const Node& node, GradientTape* tape);
void AddGradient(const Recurrent& op, const Node& node, GradientTape* tape);

// Sets Dense::keep to `count` in dense layers with more outputs than that. Returns their number.
// REQUIRES: Differentiate has not run; count > 0.
int KeepLargestGradients(int64_t count, Graph* graph);

// For ops of the reverse pass and ops of evaluation only.
template <typename AnyOp>
void AddGradient(const AnyOp&, const Node& node, GradientTape* tape) {
  tape->Refuse(absl::UnimplementedError(node.name + " has no gradient rule"));
}

}  // namespace psgd
