// Reverse-mode automatic differentiation on the graph: for every node, from the last to the first,
// a gradient rule appends the nodes that compute the gradients of its inputs. The gradient of a
// tensor with several readers is the sum of their contributions.
#pragma once

#include <span>
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
  // Adds the node `op` that computes the gradient of `of`, an input of `node`, and contributes it.
  void AddBackward(const Node& node, Op op, std::vector<TensorId> inputs, TensorId of,
                   const char* suffix = ".backward");
  // Adds the node `op` that computes, from x and dy, the gradients of all inputs of `node` but the
  // first, x.
  void AddWeightsBackward(const Node& node, Op op, TensorId dy);
  // Makes Differentiate return this error.
  void Refuse(absl::Status why) { status_.Update(std::move(why)); }
  const absl::Status& status() const { return status_; }

 private:
  Graph* const graph_;
  std::vector<bool> wanted_;
  std::vector<std::vector<TensorId>> contributions_;
  absl::Status status_;
};

// Appends the reverse pass to the graph. Loss nodes need no seed. Afterwards each trained
// parameter's `gradient` is an external tensor of its own. Returns the gradients of other tensors
// that want one, by tensor; kNoTensor: none. It is an error if the loss does not depend on a
// parameter.
absl::StatusOr<std::vector<TensorId>> Differentiate(Graph* graph,
                                                    std::span<const GradientSeed> seeds = {});

}  // namespace psgd
