// The gradient rule that normalizations share: x, gamma, beta -> y, mean, var[, more] forward, and
// x, gamma, mean, var, dy -> dgamma, dbeta[, dx] backward.
#pragma once

#include <utility>
#include <vector>

#include "engine/graph/differentiate.h"
#include "engine/graph/graph.h"

namespace psgd {

template <typename Backward>
void AddNormGradient(const Backward& backward, const Node& node, GradientTape* tape) {
  const TensorId dy = tape->Gradient(node.outputs[0]);
  const TensorId x = node.inputs[0], gamma = node.inputs[1], beta = node.inputs[2];
  std::vector<TensorId> outputs = {tape->NewGradient(gamma), tape->NewGradient(beta)};
  tape->Contribute(gamma, outputs[0]);
  tape->Contribute(beta, outputs[1]);
  if (tape->Wanted(x)) {
    outputs.push_back(tape->NewGradient(x));
    tape->Contribute(x, outputs[2]);
  }
  tape->graph().AddNode(node.name + ".backward", backward,
                        {x, gamma, node.outputs[1], node.outputs[2], dy}, std::move(outputs));
}

}  // namespace psgd
