#include "engine/cudnn/neighbours.h"

namespace psgd::cudnn {

Neighbours::Neighbours(const Graph& graph)
    : graph_(graph), writer_(graph.tensors.size(), kNoNode), readers_(graph.tensors.size()) {
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    for (const TensorId input : graph.nodes[i].inputs) readers_[input].push_back(i);
    for (const TensorId output : graph.nodes[i].outputs) writer_[output] = i;
  }
}

int Neighbours::OnlyReaderOf(TensorId tensor) const {
  const bool one = readers_[tensor].size() == 1 && !graph_.tensors[tensor].external;
  return one ? readers_[tensor].front() : kNoNode;
}

}  // namespace psgd::cudnn
