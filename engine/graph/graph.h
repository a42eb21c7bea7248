// A network as plain data: tensors, and nodes in the order they run. Every tensor is written by at
// most one node, so gradients that meet are summed by a node of their own and backends may keep a
// tensor in any layout they like. No proto and no backend types: plugins include this.
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
  kOpaque,  // handed from a forward node to its backward node; size and content are the backend's
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

// How a parameter starts: uniform or normal around `center`, or with values of the model's file.
struct Initial {
  enum class Kind { kConstant, kUniform, kNormal, kGiven };
  Kind kind = Kind::kConstant;
  double center = 0;
  double spread = 0;      // half the width, or the standard deviation
  uint64_t checksum = 0;  // of the values given
};

struct Parameter {
  TensorId value = kNoTensor;
  // Filled by Differentiate; for a statistic by the node that updates it.
  TensorId gradient = kNoTensor;
  bool statistic = false;
  bool decay = false;
  // A step's gradient is zero in most rows: a table of which a batch reads a few.
  bool sparse = false;
  Initial initial = {};
};

struct Graph {
  std::vector<Tensor> tensors;
  std::vector<Node> nodes;
  std::vector<Parameter> parameters;  // from the front of the network to its end

  TensorId AddTensor(Tensor tensor);
  // Adds an activation.
  TensorId AddTensor(std::string name, Shape shape, Element element = Element::kReal);
  void AddNode(std::string name, Op op, std::vector<TensorId> inputs,
               std::vector<TensorId> outputs);

  const Shape& shape(TensorId tensor) const { return tensors[tensor].shape; }
};

}  // namespace psgd
