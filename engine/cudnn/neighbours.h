// The nodes around each tensor of a graph, by their index.
#pragma once

#include <variant>
#include <vector>

#include "engine/graph/graph.h"

namespace psgd::cudnn {

inline constexpr int kNoNode = -1;

// REQUIRES: the graph outlives it and does not change.
class Neighbours {
 public:
  explicit Neighbours(const Graph& graph);

  // kNoNode: the tensor comes from outside.
  int WriterOf(TensorId tensor) const { return writer_[tensor]; }
  // A node that reads the tensor twice is there twice.
  const std::vector<int>& ReadersOf(TensorId tensor) const { return readers_[tensor]; }
  // The node that reads the tensor, if nothing else needs it; otherwise kNoNode.
  int OnlyReaderOf(TensorId tensor) const;
  template <typename AnyOp>
  bool Is(int node) const {
    return node != kNoNode && std::holds_alternative<AnyOp>(graph_.nodes[node].op);
  }

 private:
  const Graph& graph_;
  std::vector<int> writer_;
  std::vector<std::vector<int>> readers_;
};

}  // namespace psgd::cudnn
