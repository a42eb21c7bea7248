// Which weights multiply features inside a network. muon makes the updates of these orthogonal.
#pragma once

#include <vector>

#include "engine/graph/graph.h"

namespace psgd {

// By parameter: whether it is the weight of a dense layer or a convolution, no table as well, and
// not of the network's last dense layer, whose rows are the classes.
std::vector<bool> HiddenMatrices(const Graph& graph);

}  // namespace psgd
