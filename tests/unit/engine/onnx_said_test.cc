// Refused files: they contradict themselves, or ask for something that psgd does differently. Also
// all forms of products of matrices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/engine/onnx_maker.h"

namespace psgd {
namespace {

using onnx::GraphProto;
using onnx::ModelProto;
using onnx::NodeProto;
using testing::AddInts;
using testing::AddNode;
using testing::AddWeights;
using ::testing::AllOf;
using testing::AroundNode;
using ::testing::Contains;
using testing::EmptyModel;
using ::testing::HasSubstr;
using testing::Import;
using testing::ParameterNames;
using testing::SetInt;
using testing::SetInts;
using testing::SetOutput;
using testing::SmallModel;

ModelProto EndingInLikelihood(const std::vector<const char*>& ops) {
  ModelProto model = SmallModel();
  GraphProto* graph = model.mutable_graph();
  std::string last = "y";
  for (const char* op : ops) {
    AddNode(graph, op, {last}, last + op);
    last += op;
  }
  graph->add_input()->set_name("labels");
  AddNode(graph, "NegativeLogLikelihoodLoss", {last, "labels"}, "loss");
  SetOutput(graph, "loss");
  return model;
}

TEST(OnnxSaid, ALikelihoodIsOfLogarithmsOfProbabilities) {
  for (const std::vector<const char*>& ops : {std::vector<const char*>{"LogSoftmax"},
                                              {"LogSoftmax", "Identity"},
                                              {"Softmax", "Log"},
                                              {"Softmax", "Identity", "Log"}}) {
    EXPECT_TRUE(Import(EndingInLikelihood(ops)).ok()) << Import(EndingInLikelihood(ops)).status();
  }
  for (const std::vector<const char*>& ops : {std::vector<const char*>{},
                                              {"Softmax"},
                                              {"Identity"},
                                              {"Log"},
                                              {"LogSoftmax", "Log"},
                                              {"LogSoftmax", "Relu"}}) {
    const absl::Status status = Import(EndingInLikelihood(ops)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("NegativeLogLikelihoodLoss node loss_node"),
                      HasSubstr("put a LogSoftmax before it")));
  }
}

std::string ErrorAround(const std::function<void(GraphProto*)>& add, int64_t features = 32) {
  return std::string(AroundNode(add, features, 17).status().message());
}

// "m" uses the second output of a node.
TEST(OnnxSaid, OutputsThatAreNotMadeAreNamed) {
  const auto second = [](const char* op, const std::vector<std::string>& inputs) {
    return ErrorAround([=](GraphProto* graph) {
      for (const char* name : {"scale", "bias", "mean", "var"}) AddWeights(graph, name, {2});
      for (const char* name : {"row", "shift"}) AddWeights(graph, name, {4});
      AddNode(graph, op, inputs, "first")->add_output("second");
      SetInt(AddNode(graph, "Cast", {"second"}, "m"), "to", 1);
    });
  };
  EXPECT_THAT(second("BatchNormalization", {"x", "scale", "bias", "mean", "var"}),
              AllOf(HasSubstr("1 node that"),
                    HasSubstr("BatchNormalization node first_node: its output 2, second")));
  EXPECT_THAT(second("LayerNormalization", {"x", "row", "shift"}),
              HasSubstr("LayerNormalization node first_node: its output 2, second"));
  EXPECT_THAT(second("Dropout", {"x"}), HasSubstr("Dropout node first_node: its output 2, second"));
}

TEST(OnnxSaid, SizesAreThoseOfTheWeights) {
  for (const char* op : {"Conv", "ConvTranspose"}) {
    EXPECT_THAT(ErrorAround([=](GraphProto* graph) {
                  AddWeights(graph, "w", {2, 2, 3, 3});
                  SetInts(AddNode(graph, op, {"x", "w"}, "m"), "kernel_shape", {1, 1});
                }),
                AllOf(HasSubstr("m_node: says kernel_shape 1x1"), HasSubstr("2x2x3x3")));
  }
  EXPECT_THAT(ErrorAround([](GraphProto* graph) {
                AddWeights(graph, "w", {1, 16, 4});
                AddWeights(graph, "r", {1, 16, 4});
                AddInts(graph, "steps", {8, -1, 4});
                AddNode(graph, "Reshape", {"x", "steps"}, "s");
                SetInt(AddNode(graph, "LSTM", {"s", "w", "r"}, "m"), "hidden_size", 99);
              }),
              AllOf(HasSubstr("LSTM node"), HasSubstr("hidden_size 99"), HasSubstr("for 4")));
}

TEST(OnnxSaid, ASplitIsOfTheWholeAxis) {
  EXPECT_THAT(ErrorAround(
                  [](GraphProto* graph) {
                    AddInts(graph, "lengths", {10, 10});
                    AddNode(graph, "Flatten", {"x"}, "row");
                    NodeProto* split = AddNode(graph, "Split", {"row", "lengths"}, "m");
                    split->add_output("rest");
                    SetInt(split, "axis", 1);
                  },
                  10),
              AllOf(HasSubstr("Split node m_node"), HasSubstr("splits 32 into lengths of 20")));
}

// Images of 32 numbers times weights. Each matrix, and the product, may be transposed.
ModelProto Product(bool transposed_images, bool weights_first, bool transposed_weights,
                   const Shape& bias) {
  ModelProto model = EmptyModel({0, 2, 4, 4});
  GraphProto* graph = model.mutable_graph();
  AddNode(graph, "Flatten", {"x"}, "rows");
  if (transposed_images) AddNode(graph, "Transpose", {"rows"}, "columns");
  const std::string images = transposed_images ? "columns" : "rows";
  AddWeights(graph, "w", transposed_weights ? Shape{3, 32} : Shape{32, 3});
  std::vector<std::string> inputs = {weights_first ? "w" : images, weights_first ? images : "w"};
  AddWeights(graph, "b", bias);
  inputs.push_back("b");
  NodeProto* gemm = AddNode(graph, "Gemm", inputs, "product");
  SetInt(gemm, "transA", weights_first ? !transposed_weights : transposed_images);
  SetInt(gemm, "transB", weights_first ? !transposed_images : transposed_weights);
  AddNode(graph, weights_first ? "Transpose" : "Identity", {"product"}, "y");
  SetOutput(graph, "y");
  return model;
}

TEST(OnnxSaid, ProductsOfAnyTransposesAndBiases) {
  for (const bool images : {false, true}) {
    for (const bool first : {false, true}) {
      for (const bool weights : {false, true}) {
        for (const Shape& bias : {Shape{}, {1}, {1, 1}, first ? Shape{3, 1} : Shape{3}}) {
          for (const int batch : {1, 4}) {
            const auto imported = Import(Product(images, first, weights, bias), batch);
            ASSERT_TRUE(imported.ok()) << images << first << weights << " " << ShapeText(bias)
                                       << " " << batch << ": " << imported.status();
            EXPECT_EQ(imported->graph.shape(imported->labels), Shape{batch});
            if (bias.empty()) continue;  // a single number is not trained
            EXPECT_THAT(ParameterNames(*imported), Contains("b"));
          }
        }
      }
    }
  }
  EXPECT_THAT(std::string(Import(Product(false, false, false, {2})).status().message()),
              HasSubstr("has a bias of 2 for a product of 4x3"));
}

TEST(OnnxSaid, AProductThatSumsOverTheBatchIsRefused) {
  ModelProto model = EmptyModel({0, 2, 4, 4});
  GraphProto* graph = model.mutable_graph();
  AddNode(graph, "Flatten", {"x"}, "rows");
  AddWeights(graph, "w", {4, 3});
  SetInt(AddNode(graph, "Gemm", {"rows", "w"}, "y"), "transA", 1);
  SetOutput(graph, "y");
  EXPECT_THAT(std::string(Import(model).status().message()),
              AllOf(HasSubstr("Gemm node y_node"), HasSubstr("sums over the batch")));
}

}  // namespace
}  // namespace psgd
