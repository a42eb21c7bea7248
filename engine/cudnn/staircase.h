// The matrices of causal attention, queries by keys: a query sees no later key. In blocks, what
// counts is a staircase at and below the diagonal. Products and softmax leave out the blocks above
// it, nearly half of their work: nothing writes or reads these.
#pragma once

#include <vector>

#include "engine/graph/graph.h"

namespace psgd::cudnn {

// Queries, and keys, of a block. A product of blocks must be large enough to keep a device busy.
inline constexpr int64_t kStair = 256;

// By tensor: whether it is such a matrix and all its readers know.
std::vector<bool> FindStaircases(const Graph& graph);

}  // namespace psgd::cudnn
