// Finds choices (Where) whose gradient may be NaN. What a choice leaves out has the gradient zero.
// On the way from there to trained weights zero is multiplied by slopes and by other operands; zero
// times infinity or NaN is NaN. PyTorch computes the same.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace psgd::onnx {

struct SpoiledChoice {
  size_t choice = 0;  // its place among the choices
  std::string why;    // what may be infinite or NaN, and what bounds it
};

// `choices` are results of Select. A network that is infinite or NaN elsewhere, as one that has
// diverged, is no matter of its choices: results of layers (Dense, MatMul, ...) count as numbers.
std::vector<SpoiledChoice> SpoiledChoices(const Graph& graph, const std::vector<TensorId>& choices);

}  // namespace psgd::onnx
