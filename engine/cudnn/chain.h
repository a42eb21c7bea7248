// Chains of nodes that run together. What passes from node to node has no memory of its own: it
// stays in registers, or after a convolution or a product in the memory of the chain's result.
#pragma once

#include <vector>

#include "engine/graph/graph.h"

namespace psgd::cudnn {

// In the order of the graph. A chain runs at its last node, with two exceptions: statistics of
// batch norms are computed at the batch norm; products that a Sum adds run at their own nodes, and
// the Sum launches nothing. Possible chains:
//   BatchNorm or BatchNormInference, Sum of its result and another tensor, Relu
//   the same with a second BatchNorm or BatchNormInference, whose result is the other tensor
//   the same without Sum, or without Relu
//   Sum of two tensors, Relu
//   ReluBackward, BatchNormBackward
//   Sum of two tensors, ReluBackward
//   Conv2d with a bias, Relu
//   Dense with a bias, perhaps Reshapes, Relu
//   products of dense layers (Dense, DenseBackwardData), perhaps Reshapes after each, and the Sum
//   that reads them. The Sum may have one other term, if that exists before the first product. The
//   first product writes the sum, the others add to it.
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
