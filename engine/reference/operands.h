// The operands of a reference kernel: the tensors of one node as plain row-major arrays.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/runtime/backend.h"

namespace psgd::reference {

template <typename T>
class Operands {
 public:
  Operands(const Graph& graph, const Node& node, const std::vector<void*>& inputs,
           const std::vector<void*>& outputs, const Step& step, const DropoutSource& dropout)
      : step(step),
        dropout(dropout),
        graph_(graph),
        node_(node),
        inputs_(inputs),
        outputs_(outputs) {}

  const T* in(int i) const { return static_cast<const T*>(inputs_[i]); }
  T* out(int i) const { return static_cast<T*>(outputs_[i]); }
  // For elements of another type than T.
  template <typename U>
  const U* in_as(int i) const {
    return static_cast<const U*>(inputs_[i]);
  }
  template <typename U>
  U* out_as(int i) const {
    return static_cast<U*>(outputs_[i]);
  }
  const Shape& in_shape(int i) const { return graph_.shape(node_.inputs[i]); }
  const Shape& out_shape(int i) const { return graph_.shape(node_.outputs[i]); }
  int inputs() const { return static_cast<int>(inputs_.size()); }
  int outputs() const { return static_cast<int>(outputs_.size()); }

  const Step& step;
  const DropoutSource& dropout;

 private:
  const Graph& graph_;
  const Node& node_;
  const std::vector<void*>& inputs_;
  const std::vector<void*>& outputs_;
};

}  // namespace psgd::reference
