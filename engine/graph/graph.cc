#include "engine/graph/graph.h"

#include <utility>

namespace psgd {

TensorId Graph::AddTensor(Tensor tensor) {
  tensors.push_back(std::move(tensor));
  return static_cast<TensorId>(tensors.size()) - 1;
}

TensorId Graph::AddTensor(std::string name, Shape shape, Element element) {
  return AddTensor({.name = std::move(name), .shape = std::move(shape), .element = element});
}

void Graph::AddNode(std::string name, Op op, std::vector<TensorId> inputs,
                    std::vector<TensorId> outputs) {
  nodes.push_back({std::move(name), std::move(op), std::move(inputs), std::move(outputs)});
}

TensorId Graph::AddResult(const std::string& name, Op op, std::vector<TensorId> inputs, Shape shape,
                          Element element) {
  const TensorId made = AddTensor(name, std::move(shape), element);
  AddNode(name, std::move(op), std::move(inputs), {made});
  return made;
}

}  // namespace psgd
