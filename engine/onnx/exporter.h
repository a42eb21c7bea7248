// Turns the nodes of a Graph into nodes of an ONNX file. Not thread-safe.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "engine/graph/builder.h"
#include "engine/onnx/attributes.h"
#include "engine/onnx/export.h"
#include "proto/onnx.pb.h"

namespace psgd::onnx {

class Exporter {
 public:
  // `model` and `other` are one network built for two batches. Axes that differ depend on the
  // batch.
  Exporter(const ModelGraph& model, const ModelGraph& other, const ParameterValues& values);
  absl::StatusOr<std::string> Run();

 private:
  // Each adds what computes the node, or refuses it.
  void Emit(const Bias& op, const Node& node);
  void Emit(const Conv2d& op, const Node& node);
  void Emit(const Conv2dBackwardData& op, const Node& node);
  void Emit(const Dense& op, const Node& node);
  void Emit(const Embedding& op, const Node& node);
  void Emit(const MatMul& op, const Node& node);
  void Emit(const Recurrent& op, const Node& node);
  void Emit(const RowBias& op, const Node& node);
  void Emit(const Pool& op, const Node& node);
  void Emit(const Upsample& op, const Node& node);
  void Emit(const BatchNormInference& op, const Node& node);
  void Emit(const LayerNorm& op, const Node& node);
  void Emit(const LocalResponseNorm& op, const Node& node);
  void Emit(const Softmax& op, const Node& node);
  void Emit(const Activation& op, const Node& node);
  void EmitGelu(const Node& node);
  void Emit(const AxisMap& op, const Node& node);
  void Emit(const Mul& op, const Node& node);
  void Emit(const Relu& op, const Node& node);
  void Emit(const Sum& op, const Node& node);
  void Emit(const Concat& op, const Node& node);
  void Emit(const Constant& op, const Node& node);
  void Emit(const Pad& op, const Node& node);
  void Emit(const Reshape& op, const Node& node);
  void Emit(const Select& op, const Node& node);
  void Emit(const Slice& op, const Node& node);
  void Emit(const Transpose& op, const Node& node);
  void Emit(const Lengths& op, const Node& node);
  // Refuses, because ONNX has no such op.
  void Emit(const AdaptiveAveragePool&, const Node& node);
  // For ops of training.
  template <typename Other>
  void Emit(const Other&, const Node& node) {
    Refuse(absl::InternalError(node.name + " is no part of a network that is only evaluated"));
  }

  void Refuse(absl::Status why) { refused_ = std::move(why); }
  // Adds a node with one output; the caller adds attributes.
  NodeProto* Add(const char* op, const std::string& name, const std::vector<std::string>& inputs,
                 const std::string& output);
  NodeProto* Add(const char* op, const Node& node, const std::vector<std::string>& inputs) {
    return Add(op, node.name, inputs, Out(node));
  }
  // A value between the nodes that one op becomes.
  std::string Between(const Node& node, const char* what) { return Unique(node.name + "." + what); }
  // Adds such a node, and returns the name of its output.
  std::string Via(const char* op, const Node& node, const char* what,
                  const std::vector<std::string>& inputs) {
    const std::string name = Between(node, what);
    Add(op, name, inputs, name);
    return name;
  }
  std::string In(const Node& node, size_t i) const { return names_.at(node.inputs[i]); }
  std::vector<std::string> Ins(const Node& node) const;
  std::string Out(const Node& node) { return NameOf(node.outputs[0]); }
  const std::string& NameOf(TensorId tensor);
  std::string Unique(const std::string& wanted);

  // Untrained numbers. They are Constant nodes, because ImportOnnx takes initializers with axes for
  // weights.
  std::string Ints(const Node& node, const char* what, const Shape& values);
  std::string Numbers(const Node& node, const char* what, const Shape& shape,
                      const std::vector<float>& values);
  std::string Number(const Node& node, const char* what, float value) {
    return Numbers(node, what, {}, {value});
  }
  // Sizes of a tensor: `each` for each sample along the axis, and 1 along the others.
  std::string OfSamples(const Node& node, int64_t each, int axis, size_t rank);
  void AddWeight(const std::string& name, const Shape& shape, std::span<const float> values);
  void AddParameters();
  // Adds a recurrent weight, or two biases, with gates in ONNX's order and an axis for the
  // direction. Parameters become initializers called `name`.
  std::string AddGates(const Recurrent& op, const Node& node, const std::vector<TensorId>& weights,
                       const std::string& name);
  // The axis of the batch; -1: none.
  int BatchAxisOf(TensorId tensor) const;
  void Describe(TensorId tensor, int type, ValueInfoProto* info);
  int ParameterOf(TensorId tensor) const;

  const ModelGraph& model_;
  const ModelGraph& other_;
  const ParameterValues& values_;
  ModelProto file_;
  GraphProto* const graph_;
  std::map<TensorId, std::string> names_;
  std::set<std::string> taken_;
  absl::Status refused_;
};

}  // namespace psgd::onnx
