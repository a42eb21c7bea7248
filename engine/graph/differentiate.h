// Reverse-mode automatic differentiation on the graph itself: for every node, from the last to the
// first, its gradient rule appends the nodes that carry the gradient on. A tensor used in several
// places gets the sum of what each of them contributes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "engine/graph/graph.h"

namespace psgd {

// Where the reverse pass starts: the gradient of `tensor` is already there, in `gradient`.
struct GradientSeed {
  TensorId tensor = kNoTensor;
  TensorId gradient = kNoTensor;
};

// What a gradient rule works with. Lives only while Differentiate runs.
class GradientTape {
 public:
  explicit GradientTape(Graph* graph);

  Graph& graph() { return *graph_; }
  // The value depends on something whose gradient is wanted.
  bool Wanted(TensorId tensor) const { return wanted_[tensor]; }
  // All that was contributed, summed; kNoTensor if nothing was.
  TensorId Gradient(TensorId tensor);
  void Contribute(TensorId tensor, TensorId gradient);
  // A new tensor of the same shape, named for the gradient of `tensor`.
  TensorId NewGradient(TensorId tensor);

 private:
  Graph* const graph_;
  std::vector<bool> wanted_;
  std::vector<std::vector<TensorId>> contributions_;
};

// Appends the reverse pass to the graph. Loss nodes need no seed. Afterwards each trained
// parameter's `gradient` is an external tensor of its own; gradients of other wanting tensors are
// returned, by tensor, kNoTensor where there is none. An error when the loss does not depend on a
// parameter.
absl::StatusOr<std::vector<TensorId>> Differentiate(Graph* graph,
                                                    std::span<const GradientSeed> seeds = {});

}  // namespace psgd
