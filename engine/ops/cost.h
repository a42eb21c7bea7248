// The least work that a node must do, by the shapes of its tensors: for comparisons with a device's
// limits.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "engine/graph/graph.h"

namespace psgd {

struct OpCost {
  double bytes = 0;  // each tensor once; of a table only the rows that are read
  double flops = 0;  // of products of matrices, a multiplication and an addition each; else 0
};

// `real_bytes`: of an element of a tensor that is not external, as 2 in bf16.
OpCost CostOf(const Graph& graph, const Node& node, size_t real_bytes);

// The bytes of tensors, each as often as it is listed.
double BytesOf(const Graph& graph, std::span<const TensorId> tensors, size_t real_bytes);

// As "Conv2dBackwardData".
std::string OpName(const Op& op);

}  // namespace psgd
