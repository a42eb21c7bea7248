// A network as plain data: tensors, and nodes in the order they run. At most one node writes a
// tensor, so a node of its own sums gradients, and a backend may keep a tensor in any layout. This
// header has no proto or backend types, because plugins include it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/graph/op.h"
#include "engine/graph/shape.h"

namespace psgd {

using TensorId = int;
inline constexpr TensorId kNoTensor = -1;

enum class Element {
  kReal,  // fp32; the reference backend also runs in double
  kInt32,
  kDouble,
  kOpaque,  // passed from a forward to its backward node; the backend sets size and content
};

struct Tensor {
  std::string name;
  Shape shape;
  Element element = Element::kReal;
  bool wants_gradient = false;
  // Plain row-major memory outside the plan: inputs, parameters, gradients of parameters, results.
  bool external = false;
};

struct Node {
  std::string name;
  Op op;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
};

// A parameter's initial values: uniform or normal around `center`, or given by the model's file.
struct Initial {
  enum class Kind { kConstant, kUniform, kNormal, kGiven };
  Kind kind = Kind::kConstant;
  double center = 0;
  double spread = 0;      // half the width, or the standard deviation
  uint64_t checksum = 0;  // of the values given
};

struct Parameter {
  TensorId value = kNoTensor;
  // Differentiate makes it; for a statistic the node that updates the statistic does.
  TensorId gradient = kNoTensor;
  bool statistic = false;
  bool decay = false;
  // A step's gradient is zero in most rows, because a batch reads few rows of the table.
  bool sparse = false;
  Initial initial = {};
};

struct Graph {
  std::vector<Tensor> tensors;
  std::vector<Node> nodes;
  std::vector<Parameter> parameters;  // from the front of the network to its end

  TensorId AddTensor(Tensor tensor);
  // Adds a tensor that is not external.
  TensorId AddTensor(std::string name, Shape shape, Element element = Element::kReal);
  void AddNode(std::string name, Op op, std::vector<TensorId> inputs,
               std::vector<TensorId> outputs);
  // Adds a node and the one tensor that it makes, both with this name.
  TensorId AddResult(const std::string& name, Op op, std::vector<TensorId> inputs, Shape shape,
                     Element element = Element::kReal);

  const Shape& shape(TensorId tensor) const { return tensors[tensor].shape; }
};

}  // namespace psgd
