// Makes and damages small ONNX files in memory.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "engine/onnx/importer.h"
#include "proto/onnx.pb.h"

namespace psgd::testing {

inline void AddWeights(onnx::GraphProto* graph, const std::string& name, const Shape& shape,
                       float value = 0.25f) {
  onnx::TensorProto* tensor = graph->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  tensor->mutable_dims()->Add(shape.begin(), shape.end());
  for (int64_t i = 0; i < ElementCount(shape); ++i) tensor->add_float_data(value);
}

inline void AddInts(onnx::GraphProto* graph, const std::string& name,
                    const std::vector<int64_t>& values) {
  onnx::TensorProto* tensor = graph->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::INT64);
  tensor->add_dims(static_cast<int64_t>(values.size()));
  for (int64_t value : values) tensor->add_int64_data(value);
}

inline onnx::NodeProto* AddNode(onnx::GraphProto* graph, const std::string& op,
                                const std::vector<std::string>& inputs, const std::string& output) {
  onnx::NodeProto* node = graph->add_node();
  node->set_op_type(op);
  node->set_name(output + "_node");
  for (const std::string& input : inputs) node->add_input(input);
  node->add_output(output);
  return node;
}

inline void SetInts(onnx::NodeProto* node, const std::string& name,
                    const std::vector<int64_t>& values) {
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INTS);
  for (int64_t value : values) attribute->add_ints(value);
}

inline void SetInt(onnx::NodeProto* node, const std::string& name, int64_t value) {
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(value);
}

inline void SetText(onnx::NodeProto* node, const std::string& name, const std::string& value) {
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::STRING);
  attribute->set_s(value);
}

inline void SetOutput(onnx::GraphProto* graph, const std::string& name) {
  graph->clear_output();
  graph->add_output()->set_name(name);
}

// A model with an input "x" of these sizes; 0: the file leaves the size open.
inline onnx::ModelProto EmptyModel(const Shape& input, int64_t opset = 13) {
  onnx::ModelProto model;
  model.set_ir_version(7);
  model.add_opset_import()->set_version(opset);
  onnx::ValueInfoProto* x = model.mutable_graph()->add_input();
  x->set_name("x");
  auto* type = x->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  for (int64_t size : input) {
    auto* dim = type->mutable_shape()->add_dim();
    if (size > 0) dim->set_dim_value(size);
    if (size == 0) dim->set_dim_param("n");
  }
  return model;
}

// A model for images of 2 x 4 x 4 in 3 classes: a convolution, relu, and a dense layer.
inline onnx::ModelProto SmallModel(int64_t batch = 0) {
  onnx::ModelProto model = EmptyModel({batch, 2, 4, 4});
  onnx::GraphProto* graph = model.mutable_graph();
  AddWeights(graph, "conv.weight", {5, 2, 3, 3});
  AddWeights(graph, "conv.bias", {5});
  AddWeights(graph, "fc.weight", {3, 20});
  AddInts(graph, "shape", {batch > 0 ? batch : -1, 20});
  AddNode(graph, "Conv", {"x", "conv.weight", "conv.bias"}, "c");
  AddNode(graph, "Relu", {"c"}, "r");
  AddNode(graph, "Reshape", {"r", "shape"}, "f");
  SetInt(AddNode(graph, "Gemm", {"f", "fc.weight"}, "y"), "transB", 1);
  SetOutput(graph, "y");
  return model;
}

inline constexpr SampleShape kSmallShape = {2, 4, 4, 3};

inline absl::StatusOr<ModelGraph> ImportBytes(const std::string& bytes, int batch = 4,
                                              Mode mode = Mode::kTrain,
                                              const SampleShape& shape = kSmallShape) {
  PSGD_ASSIGN_OR_RETURN(const onnx::OnnxFile file, onnx::OnnxFile::Parse(bytes, "small.onnx"));
  return onnx::Importer(file, {.mode = mode, .batch = batch, .shape = shape}).Run();
}

inline absl::StatusOr<ModelGraph> Import(const onnx::ModelProto& model, int batch = 4,
                                         Mode mode = Mode::kTrain,
                                         const SampleShape& shape = kSmallShape) {
  return ImportBytes(model.SerializeAsString(), batch, mode, shape);
}

// Imports a model that applies one node to images of 2 x 4 x 4 and then makes 3 logits.
inline absl::StatusOr<ModelGraph> AroundNode(const std::function<void(onnx::GraphProto*)>& add,
                                             int64_t features, int64_t opset = 13) {
  onnx::ModelProto model = EmptyModel({0, 2, 4, 4}, opset);
  onnx::GraphProto* graph = model.mutable_graph();
  add(graph);  // makes "m"
  AddWeights(graph, "fc.weight", {3, features});
  AddNode(graph, "Flatten", {"m"}, "flat");
  SetInt(AddNode(graph, "Gemm", {"flat", "fc.weight"}, "y"), "transB", 1);
  SetOutput(graph, "y");
  return Import(model);
}

template <typename Op>
std::vector<Op> OpsOf(const ModelGraph& model) {
  std::vector<Op> ops;
  for (const Node& node : model.graph.nodes) {
    if (const Op* op = std::get_if<Op>(&node.op)) ops.push_back(*op);
  }
  return ops;
}

inline std::vector<std::string> ParameterNames(const ModelGraph& model) {
  std::vector<std::string> names;
  for (const Parameter& p : model.graph.parameters) {
    names.push_back(model.graph.tensors[p.value].name);
  }
  return names;
}

}  // namespace psgd::testing
