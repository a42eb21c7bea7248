// The same network in every supported opset, although opsets write nodes differently. Also groups
// of nodes that exporters write for one op.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/engine/onnx_maker.h"

namespace psgd {
namespace {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::ModelProto;
using onnx::NodeProto;
using testing::AddInts;
using testing::AddNode;
using testing::AddWeights;
using testing::EmptyModel;
using ::testing::HasSubstr;
using testing::Import;
using testing::SetInt;
using testing::SetInts;
using testing::SetOutput;
using testing::SetText;

void SetFloat(NodeProto* node, const std::string& name, float value) {
  AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(AttributeProto::FLOAT);
  attribute->set_f(value);
}

// Gives the node whole numbers, as an attribute (older opsets) or as an input (`as_input`).
void GiveInts(GraphProto* graph, NodeProto* node, const std::string& name,
              const std::vector<int64_t>& values, bool as_input) {
  if (!as_input) {
    SetInts(node, name, values);
    return;
  }
  AddInts(graph, node->name() + name, values);
  node->add_input(node->name() + name);
}

void AddDense(GraphProto* graph, const std::string& from, int64_t features) {
  AddWeights(graph, "fc.weight", {3, features});
  AddNode(graph, "Flatten", {from}, "flat");
  SetInt(AddNode(graph, "Gemm", {"flat", "fc.weight"}, "y"), "transB", 1);
  SetOutput(graph, "y");
}

// A model of ops that changed up to opset 20: numbers are attributes or inputs, and some names
// differ.
ModelProto EveryForm(int64_t opset) {
  ModelProto model = EmptyModel({0, 2, 4, 4}, opset);
  GraphProto* graph = model.mutable_graph();
  GiveInts(graph, AddNode(graph, "Pad", {"x"}, "p"), "pads", {0, 0, 1, 1, 0, 0, 1, 1}, opset >= 11);
  NodeProto* slice = AddNode(graph, "Slice", {"p"}, "s");
  for (const auto& [name, value] :
       {std::pair<const char*, int64_t>{"starts", 1}, {"ends", 5}, {"axes", 2}}) {
    GiveInts(graph, slice, name, {value}, opset >= 10);
  }
  NodeProto* dropout = AddNode(graph, "Dropout", {"s"}, "d");
  if (opset < 12) {
    SetFloat(dropout, "ratio", 0.25f);
  } else {
    AddWeights(graph, "ratio", {}, 0.25f);
    dropout->add_input("ratio");
  }
  GiveInts(graph, AddNode(graph, "Unsqueeze", {"d"}, "u"), "axes", {1}, opset >= 13);
  GiveInts(graph, AddNode(graph, "Squeeze", {"u"}, "q"), "axes", {1}, opset >= 13);
  AddWeights(graph, "scales", {4}, 1);
  graph->mutable_initializer(graph->initializer_size() - 1)->set_float_data(2, 2);
  graph->mutable_initializer(graph->initializer_size() - 1)->set_float_data(3, 2);
  NodeProto* grown = AddNode(graph, opset < 10 ? "Upsample" : "Resize", {"q"}, "g");
  if (opset >= 11) {
    grown->add_input("");
    SetText(grown, "coordinate_transformation_mode", "asymmetric");
    SetText(grown, "nearest_mode", "floor");
  }
  grown->add_input("scales");
  SetText(grown, "mode", "nearest");
  NodeProto* split = AddNode(graph, "Split", {"g"}, "a");
  split->add_output("b");
  SetInt(split, "axis", 1);
  GiveInts(graph, split, "split", {1, 1}, opset >= 13);
  SetInt(AddNode(graph, "Concat", {"b", "a"}, "c"), "axis", 1);
  GiveInts(graph, AddNode(graph, "ReduceMean", {"c"}, "m"), "axes", {2, 3}, opset >= 18);
  AddDense(graph, "m", 2);
  // The default axis is the second before opset 13, and later the last.
  AddNode(graph, "Softmax", {"y"}, "z");
  SetOutput(graph, "z");
  return model;
}

// Each node's op and the shapes of its outputs.
std::vector<std::string> Nodes(const ModelGraph& model) {
  std::vector<std::string> nodes;
  for (const Node& node : model.graph.nodes) {
    std::string text = std::to_string(node.op.index());
    for (TensorId output : node.outputs) text += " " + ShapeText(model.graph.shape(output));
    nodes.push_back(text);
  }
  return nodes;
}

class OnnxOpset : public ::testing::TestWithParam<int64_t> {};

TEST_P(OnnxOpset, GivesTheSameNetwork) {
  const auto expected = Import(EveryForm(13)), model = Import(EveryForm(GetParam()));
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_GT(Nodes(*model).size(), 6u);
  EXPECT_EQ(Nodes(*model), Nodes(*expected));
}

// The file's opset number is wrong, so its numbers are in the wrong place.
TEST_P(OnnxOpset, HoldsTheFileToItsNumber) {
  ModelProto model = EveryForm(GetParam());
  model.mutable_opset_import(0)->set_version(GetParam() < 10 ? 8 : 21);
  EXPECT_FALSE(Import(model).ok());
}

// x / (1 + 2e-2 means of x^2 over 3 channels)^0.75, as exported from torch.nn.LocalResponseNorm.
ModelProto DecomposedNorm(int64_t opset, const std::vector<int64_t>& pads,
                          const std::vector<int64_t>& opened = {-1, 1, 2, 4, 4}) {
  ModelProto model = EmptyModel({0, 2, 4, 4}, opset);
  GraphProto* graph = model.mutable_graph();
  AddNode(graph, "Mul", {"x", "x"}, "square");
  AddInts(graph, "opened", opened);
  AddNode(graph, "Reshape", {"square", "opened"}, "five");
  if (opset < 11) {
    SetInts(AddNode(graph, "Pad", {"five"}, "padded"), "pads", pads);
  } else {  // the file computes the padding, as exported files do
    AddInts(graph, "before", {pads.begin(), pads.begin() + 5});
    AddInts(graph, "after", {pads.begin() + 5, pads.end()});
    SetInt(AddNode(graph, "Concat", {"before", "after"}, "pads"), "axis", 0);
    AddNode(graph, "Pad", {"five", "pads"}, "padded");
  }
  NodeProto* pool = AddNode(graph, "AveragePool", {"padded"}, "means");
  SetInts(pool, "kernel_shape", {3, 1, 1});
  SetInts(pool, "strides", {1, 1, 1});
  GiveInts(graph, AddNode(graph, "Squeeze", {"means"}, "four"), "axes", {1}, opset >= 13);
  AddInts(graph, "whole", {-1, 2, 4, 4});
  AddNode(graph, "Reshape", {"four", "whole"}, "each");
  AddWeights(graph, "alpha", {}, 2e-2f);
  AddWeights(graph, "k", {}, 1);
  AddWeights(graph, "beta", {}, 0.75f);
  AddNode(graph, "Mul", {"each", "alpha"}, "scaled");
  AddNode(graph, "Add", {"scaled", "k"}, "sum");
  AddNode(graph, "Pow", {"sum", "beta"}, "power");
  AddNode(graph, "Div", {"x", "power"}, "n");
  AddDense(graph, "n", 32);
  return model;
}

TEST_P(OnnxOpset, FindsLocalResponseNormInItsParts) {
  const auto model = Import(DecomposedNorm(GetParam(), {0, 0, 1, 0, 0, 0, 0, 1, 0, 0}));
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<LocalResponseNorm> found;
  for (const Node& node : model->graph.nodes) {
    if (const auto* norm = std::get_if<LocalResponseNorm>(&node.op)) found.push_back(*norm);
    EXPECT_FALSE(std::holds_alternative<Pool>(node.op));
  }
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].size, 3);
  EXPECT_FLOAT_EQ(found[0].alpha, 2e-2f);
  EXPECT_FLOAT_EQ(found[0].beta, 0.75f);
  EXPECT_FLOAT_EQ(found[0].k, 1);
}

TEST_P(OnnxOpset, RefusesOtherMeansOverFiveAxes) {
  for (const auto& model :
       {DecomposedNorm(GetParam(), {0, 0, 2, 0, 0, 0, 0, 0, 0, 0}),
        DecomposedNorm(GetParam(), {0, 0, 1, 0, 0, 0, 0, 1, 0, 0}, {-1, 2, 4, 2, 2})}) {
    const auto imported = Import(model);
    EXPECT_THAT(std::string(imported.status().message()),
                HasSubstr("not the channels around each"));
  }
}

INSTANTIATE_TEST_SUITE_P(Read, OnnxOpset, ::testing::Range<int64_t>(9, 21),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace psgd
