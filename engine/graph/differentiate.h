// Reverse-mode automatic differentiation on the graph: for every node, from the last to the first,
// a gradient rule appends the nodes that compute the gradients of its inputs. The gradient of a
// tensor with several readers is the sum of their contributions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "engine/graph/graph.h"

namespace psgd {

// A start of the reverse pass: `gradient` already holds the gradient of `tensor`.
struct GradientSeed {
  TensorId tensor = kNoTensor;
  TensorId gradient = kNoTensor;
};

// The arguments of a gradient rule. Lives only while Differentiate runs. Not thread-safe.
class GradientTape {
 public:
  explicit GradientTape(Graph* graph);

  Graph& graph() { return *graph_; }
  // The tensor depends on something whose gradient is wanted.
  bool Wanted(TensorId tensor) const { return wanted_[tensor]; }
  // The sum of all contributions; kNoTensor without any.
  TensorId Gradient(TensorId tensor);
  void Contribute(TensorId tensor, TensorId gradient);
  // A new tensor of `tensor`'s shape, named as its gradient.
  TensorId NewGradient(TensorId tensor);

 private:
  Graph* const graph_;
  std::vector<bool> wanted_;
  std::vector<std::vector<TensorId>> contributions_;
};

// Appends the reverse pass to the graph. Loss nodes need no seed. Afterwards each trained
// parameter's `gradient` is an external tensor of its own. Returns the gradients of other tensors
// that want one, by tensor; kNoTensor: none. It is an error if the loss does not depend on a
// parameter.
absl::StatusOr<std::vector<TensorId>> Differentiate(Graph* graph,
                                                    std::span<const GradientSeed> seeds = {});

}  // namespace psgd
