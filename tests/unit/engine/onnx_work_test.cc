// Small files that ask for much work. The size of the file limits the time of the import.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <variant>

#include "tests/unit/engine/onnx_maker.h"

namespace psgd {
namespace {

using onnx::GraphProto;
using onnx::ModelProto;
using testing::AddInts;
using testing::AddNode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Import;
using ::testing::Not;
using testing::SetInt;
using testing::SetOutput;
using testing::SmallModel;

// SmallModel with `length` more Relus before its dense layer.
ModelProto Relus(int length) {
  ModelProto model = SmallModel();
  GraphProto* graph = model.mutable_graph();
  std::string last = "r";
  graph->mutable_node()->DeleteSubrange(2, 2);
  for (int i = 0; i < length; ++i) {
    const std::string next = "r" + std::to_string(i);
    AddNode(graph, "Relu", {last}, next);
    last = next;
  }
  AddNode(graph, "Reshape", {last, "shape"}, "f");
  SetInt(AddNode(graph, "Gemm", {"f", "fc.weight"}, "y"), "transB", 1);
  return model;
}

std::string ErrorOf(const ModelProto& model) {
  const auto imported = Import(model);
  EXPECT_TRUE(absl::IsInvalidArgument(imported.status())) << imported.status();
  return std::string(imported.status().message());
}

TEST(OnnxWork, NodesAreCounted) {
  EXPECT_TRUE(Import(Relus(15000)).ok());
  EXPECT_THAT(ErrorOf(Relus(25000)),
              AllOf(HasSubstr("small.onnx: has 25004 nodes"), HasSubstr("at most 20000")));
}

// Each node is one line of the file and asks for 64 MiB.
TEST(OnnxWork, WhatIsComputedWhileImportingHasALimitThatEndsTheImport) {
  ModelProto model = SmallModel();
  GraphProto* graph = model.mutable_graph();
  AddInts(graph, "much", {4096, 4096});
  std::string sum = "y";
  for (int i = 0; i < 300; ++i) {
    const std::string number = std::to_string(i);
    AddNode(graph, "ConstantOfShape", {"much"}, "all" + number);
    AddNode(graph, "Add", {sum, "all" + number}, "sum" + number);
    sum = "sum" + number;
  }
  SetOutput(graph, sum);
  EXPECT_THAT(ErrorOf(model),
              AllOf(HasSubstr("ConstantOfShape node"), HasSubstr("more than 134217728 in all"),
                    Not(HasSubstr("ConstantOfShape node all20_node"))));
}

TEST(OnnxWork, AConstantIsHeldOnceHoweverManyNodesReadIt) {
  ModelProto model = SmallModel();
  GraphProto* graph = model.mutable_graph();
  AddInts(graph, "shape_of_all", {3});
  AddNode(graph, "ConstantOfShape", {"shape_of_all"}, "zero");
  AddNode(graph, "Exp", {"zero"}, "all");
  for (int i = 0; i < 8; ++i) {
    AddNode(graph, "Add", {i == 0 ? "y" : "m" + std::to_string(i - 1), "all"},
            "m" + std::to_string(i));
  }
  SetOutput(graph, "m7");
  const auto imported = Import(model);
  ASSERT_TRUE(imported.ok()) << imported.status();
  const auto& nodes = imported->graph.nodes;
  EXPECT_EQ(
      std::count_if(nodes.begin(), nodes.end(),
                    [](const Node& node) { return std::holds_alternative<Constant>(node.op); }),
      1);
}

// The search for the numbers of a gelu does not read large constants again and again.
TEST(OnnxWork, LargeConstantsAreNotReadForEachNodeThatNamesThem) {
  const auto seconds = [](int products) {
    ModelProto model = SmallModel();
    GraphProto* graph = model.mutable_graph();
    onnx::AttributeProto* value = AddNode(graph, "Constant", {}, "large")->add_attribute();
    value->set_name("value");
    value->mutable_t()->set_data_type(onnx::TensorProto::FLOAT);
    value->mutable_t()->add_dims(1 << 20);
    value->mutable_t()->set_raw_data(std::string(4 << 20, '\0'));
    for (int i = 0; i < products; ++i) {
      const std::string number = std::to_string(i);
      AddNode(graph, "Add", {"large", "y"}, "sum" + number);
      AddNode(graph, "Mul", {"sum" + number, "y"}, "product" + number);
      AddNode(graph, "Mul", {"product" + number, "y"}, "whole" + number);
    }
    const std::string bytes = model.SerializeAsString();
    const std::clock_t start = std::clock();
    EXPECT_TRUE(onnx::OnnxFile::Parse(bytes, "small.onnx").ok());
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  seconds(1);  // warms up: the first run allocates memory
  // CPU time, so that other work on the machine does not matter. The bound is far below the time of
  // 2,000 reads.
  EXPECT_LT(seconds(2000), 500 * std::max(seconds(1), 0.001));
}

}  // namespace
}  // namespace psgd
