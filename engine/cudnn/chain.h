// Chains of nodes that run together. What passes from node to node has no memory of its own: it
// stays in registers, or after a convolution or a product in the memory of the chain's result.
#pragma once

#include <vector>

#include "engine/graph/graph.h"

namespace psgd::cudnn {

// In the order of the graph. The kernel runs in place of the last node; only the statistics of
// batch norms, and products, are computed at their own nodes. Possible chains:
//   BatchNorm or BatchNormInference, Sum of its result and another tensor, Relu
//   the same with a second BatchNorm or BatchNormInference, whose result is the other tensor
//   the same without Sum, or without Relu
//   Sum of two tensors, Relu
//   ReluBackward, BatchNormBackward
//   Sum of two tensors, ReluBackward
//   Conv2d with a bias, or Dense with a bias and perhaps Reshapes; Relu
//   products of dense layers (Dense, DenseBackwardData), each perhaps with Reshapes, and the Sum of
//   them and of at most one other term, which exists before them: each product adds itself
struct Chain {
  std::vector<int> nodes;
  // With BatchNormBackward: the forward batch norm, whose result the kernel computes again, to see
  // where relu passes gradients.
  int norm = -1;
  TensorId other = kNoTensor;  // with products: the other term of the sum
};

// A node is in at most one chain. Only a later node of the chain reads a result within it.
std::vector<Chain> FindChains(const Graph& graph);

}  // namespace psgd::cudnn
