// Which weights multiply features inside a network. muon makes the updates of these orthogonal.
#pragma once

#include <vector>

#include "engine/graph/graph.h"

namespace psgd {

// By parameter: whether it is the matrix of a dense layer or of a convolution without groups, and
// neither a table nor the last such matrix, whose rows are the classes. `forward`: a graph without
// gradients, because they use weights again, in other orders.
std::vector<bool> HiddenMatrices(const Graph& forward);

}  // namespace psgd
