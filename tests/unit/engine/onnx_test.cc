// Imports of single ops, and of the metadata of files.
#include "engine/onnx/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "engine/graph/model_spec.h"
#include "engine/onnx/check.h"
#include "engine/onnx/fold.h"
#include "engine/zoo/zoo.h"
#include "tests/unit/engine/onnx_maker.h"

namespace psgd {
namespace {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::ModelProto;
using onnx::TensorProto;
using testing::AddInts;
using testing::AddNode;
using testing::AddWeights;
using ::testing::AllOf;
using testing::AroundNode;
using ::testing::ElementsAre;
using testing::EmptyModel;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using testing::Import;
using testing::OpsOf;
using testing::ParameterNames;
using testing::SetInt;
using testing::SetInts;
using testing::SetOutput;
using testing::SmallModel;

TEST(Onnx, ParametersHaveTheirNamesShapesAndChecksums) {
  const auto model = Import(SmallModel());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(ParameterNames(*model), ElementsAre("conv.weight", "conv.bias", "fc.weight"));
  const ModelSpec spec = MakeModelSpec("small", model->graph);
  EXPECT_TRUE(spec.parameters(0).decay());
  EXPECT_FALSE(spec.parameters(1).decay());
  EXPECT_TRUE(spec.parameters(0).initializer().has_given());
  EXPECT_NE(spec.parameters(0).initializer().given().checksum(),
            spec.parameters(2).initializer().given().checksum());
}

TEST(Onnx, TheBatchOfTheFileBecomesTheRuns) {
  for (int64_t exported : {0, 1, 4, 7}) {
    const auto model = Import(SmallModel(exported), /*batch=*/4);
    ASSERT_TRUE(model.ok()) << exported << ": " << model.status();
    EXPECT_EQ(model->graph.shape(model->labels), Shape{4}) << exported;
  }
}

TEST(Onnx, AllThatIsNotSupportedIsToldAtOnce) {
  ModelProto model = SmallModel();
  GraphProto* graph = model.mutable_graph();
  graph->mutable_node(1)->set_op_type("Einsum");  // without an equation
  AddWeights(graph, "w", {5, 5, 1, 1});
  AddNode(graph, "Conv", {"x", "w"}, "unused");  // the shapes do not fit, but no node needs it
  AddNode(graph, "Erf", {"x"}, "second");
  SetInts(AddNode(graph, "ReduceMean", {"second"}, "third"), "axes", {2, 3});
  AddNode(graph, "Relu", {"x"}, "n");
  AddNode(graph, "NonZero", {"n"}, "fifth");
  AddNode(graph, "Det", {"fifth"}, "fourth");
  AddNode(graph, "Concat", {"y", "third", "fourth"}, "all");
  SetOutput(graph, "all");
  const auto imported = Import(model);
  EXPECT_TRUE(absl::IsInvalidArgument(imported.status()));
  EXPECT_THAT(std::string(imported.status().message()),
              AllOf(HasSubstr("4 nodes"), HasSubstr("Einsum node r_node"),
                    HasSubstr("Erf node second_node"), HasSubstr("NonZero node fifth_node"),
                    HasSubstr("Det node fourth_node")));
}

TEST(Onnx, TheLastSoftmaxIsTheLosss) {
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    ModelProto model = SmallModel();
    AddNode(model.mutable_graph(), op, {"y"}, "p");
    SetOutput(model.mutable_graph(), "p");
    const auto imported = Import(model);
    ASSERT_TRUE(imported.ok()) << imported.status();
    EXPECT_TRUE(OpsOf<Softmax>(*imported).empty());
  }
}

// The file is exported for training, with the labels as an input.
TEST(Onnx, TheLossOfTheFileIsTheLosss) {
  for (const bool of_probabilities : {false, true}) {
    ModelProto model = SmallModel();
    GraphProto* graph = model.mutable_graph();
    graph->add_input()->set_name("labels");
    if (of_probabilities) {
      AddNode(graph, "LogSoftmax", {"y"}, "p");
      AddNode(graph, "NegativeLogLikelihoodLoss", {"p", "labels"}, "loss");
    } else {
      AddNode(graph, "SoftmaxCrossEntropyLoss", {"y", "labels"}, "loss");
    }
    SetOutput(graph, "loss");
    const auto imported = Import(model);
    ASSERT_TRUE(imported.ok()) << imported.status();
    EXPECT_TRUE(OpsOf<Softmax>(*imported).empty());
    EXPECT_EQ(OpsOf<SoftmaxCrossEntropy>(*imported).size(), 1u);
    EXPECT_EQ(ParameterNames(*imported), ParameterNames(*Import(SmallModel())));
  }
}

TEST(Onnx, LabelsOfALossAreNoInput) {
  for (const bool tokens : {false, true}) {
    ModelProto model = tokens ? EmptyModel({0, 12}) : SmallModel();
    GraphProto* graph = model.mutable_graph();
    if (tokens) {
      graph->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
          TensorProto::INT64);
      AddWeights(graph, "table", {9, 3});
      AddNode(graph, "Gather", {"table", "x"}, "y");
    }
    onnx::ValueInfoProto* labels = graph->add_input();
    labels->set_name("labels");
    labels->mutable_type()->mutable_tensor_type()->set_elem_type(TensorProto::INT64);
    graph->mutable_input()->SwapElements(0, 1);
    AddNode(graph, "SoftmaxCrossEntropyLoss", {"y", "labels"}, "loss");
    SetOutput(graph, "loss");
    const std::string path = ::testing::TempDir() + "/with_loss.onnx";
    std::ofstream(path, std::ios::binary) << model.SerializeAsString();
    ModelConfig config;
    config.set_onnx(path);
    const auto input = InputOf(config);
    ASSERT_TRUE(input.ok()) << input.status();
    EXPECT_EQ(input->tokens, tokens);
    const auto check = CheckOnnx(path, {});
    ASSERT_TRUE(check.ok()) << check.status();
    EXPECT_EQ(check->samples, tokens ? "sequences of 12 tokens" : "images of 2x4x4");
    EXPECT_TRUE(check->problems.empty());
    std::filesystem::remove(path);
  }
}

// A fused bag takes values of the data alone, and these are of a second table.
TEST(Onnx, ASumOfRowsTimesLearnedValuesIsNoBag) {
  ModelProto model = EmptyModel({0, 12});
  GraphProto* graph = model.mutable_graph();
  graph->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(TensorProto::INT64);
  AddWeights(graph, "table", {9, 4});
  AddWeights(graph, "shares", {9, 1});
  AddWeights(graph, "fc", {4, 3});
  AddInts(graph, "one", {1});
  AddInts(graph, "two", {2});
  AddNode(graph, "Gather", {"table", "x"}, "rows");
  AddNode(graph, "Gather", {"shares", "x"}, "share");
  AddNode(graph, "Squeeze", {"share", "two"}, "values");
  AddNode(graph, "Unsqueeze", {"values", "two"}, "column");
  AddNode(graph, "Mul", {"rows", "column"}, "weighted");
  SetInt(AddNode(graph, "ReduceSum", {"weighted", "one"}, "sum"), "keepdims", 0);
  AddNode(graph, "MatMul", {"sum", "fc"}, "y");
  SetOutput(graph, "y");
  const auto imported =
      Import(model, 4, Mode::kTrain, {.classes = 3, .length = 12, .source = 12, .vocabulary = 9});
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(OpsOf<Mul>(*imported).size(), 1);
  EXPECT_THAT(ParameterNames(*imported), ::testing::UnorderedElementsAre("table", "shares", "fc"));
}

TEST(Onnx, ALossOfAnotherKindIsRefused) {
  ModelProto weighted = SmallModel();
  AddWeights(weighted.mutable_graph(), "weights", {3});
  AddNode(weighted.mutable_graph(), "SoftmaxCrossEntropyLoss", {"y", "labels", "weights"}, "loss");
  ModelProto summed = SmallModel();
  AttributeProto* reduction =
      AddNode(summed.mutable_graph(), "SoftmaxCrossEntropyLoss", {"y", "labels"}, "loss")
          ->add_attribute();
  reduction->set_name("reduction");
  reduction->set_type(AttributeProto::STRING);
  reduction->set_s("sum");
  for (ModelProto* model : {&weighted, &summed}) {
    model->mutable_graph()->add_input()->set_name("labels");
    SetOutput(model->mutable_graph(), "loss");
    const auto imported = Import(*model);
    EXPECT_TRUE(absl::IsInvalidArgument(imported.status())) << imported.status();
    EXPECT_THAT(std::string(imported.status().message()), HasSubstr("with reduction mean"));
  }
}

// Otherwise training would use another loss than the file's.
TEST(Onnx, ASoftmaxOverAnotherAxisThanTheClassesIsRefused) {
  for (const auto& [opset, axis, ok] : {std::tuple{13, 1, true},
                                        {13, -1, true},
                                        {13, 0, false},
                                        {13, -2, false},
                                        {11, 1, true},
                                        {11, 0, false}}) {
    ModelProto model = SmallModel();
    model.mutable_opset_import(0)->set_version(opset);
    SetInt(AddNode(model.mutable_graph(), "LogSoftmax", {"y"}, "p"), "axis", axis);
    SetOutput(model.mutable_graph(), "p");
    const absl::Status imported = Import(model).status();
    EXPECT_EQ(imported.ok(), ok) << opset << " " << axis << ": " << imported;
    if (ok) continue;
    EXPECT_THAT(std::string(imported.message()), HasSubstr("ends in a LogSoftmax over axis 0"));
  }
}

TEST(Onnx, ALabelThatTheLossLeavesOutIsTheConfigsToo) {
  for (const auto& [ignored, ok] : {std::pair{-100, true}, {255, true}, {2, false}}) {
    ModelProto model = SmallModel();
    SetInt(AddNode(model.mutable_graph(), "SoftmaxCrossEntropyLoss", {"y", "labels"}, "loss"),
           "ignore_index", ignored);
    model.mutable_graph()->add_input()->set_name("labels");
    SetOutput(model.mutable_graph(), "loss");
    const absl::Status imported = Import(model).status();
    EXPECT_EQ(imported.ok(), ok) << imported;
    if (ok) continue;
    EXPECT_THAT(std::string(imported.message()), HasSubstr("model.ignored_label: 2"));
    const auto file = onnx::OnnxFile::Parse(model.SerializeAsString(), "small.onnx");
    ASSERT_TRUE(file.ok());
    ModelConfig config;
    config.set_ignored_label(2);
    const auto agreed =
        onnx::Importer(*file, {.batch = 4, .shape = testing::kSmallShape, .config = config}).Run();
    ASSERT_TRUE(agreed.ok()) << agreed.status();
    EXPECT_EQ(OpsOf<SoftmaxCrossEntropy>(*agreed).at(0).ignored, 2);
  }
}

TEST(Onnx, AnOpWhoseSecondOutputIsUsedIsNamed) {
  const auto model = AroundNode(
      [](GraphProto* graph) {
        onnx::NodeProto* pool = AddNode(graph, "MaxPool", {"x"}, "values");
        SetInts(pool, "kernel_shape", {2, 2});
        pool->add_output("places");
        AddNode(graph, "Identity", {"places"}, "m");
      },
      18);
  EXPECT_THAT(std::string(model.status().message()),
              AllOf(HasSubstr("MaxPool node values_node"), HasSubstr("second output")));
}

TEST(Onnx, FrozenWeightsAreConstants) {
  const auto file = onnx::OnnxFile::Parse(SmallModel().SerializeAsString(), "small.onnx");
  ASSERT_TRUE(file.ok());
  ModelConfig config;
  config.add_frozen("conv.*");
  const auto model =
      onnx::Importer(*file, {.batch = 4, .shape = testing::kSmallShape, .config = config}).Run();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(ParameterNames(*model), ElementsAre("fc.weight"));
  EXPECT_EQ(OpsOf<Constant>(*model).size(), 2u);
}

TEST(Onnx, EqualWeightsThatAnExporterMergedAreTrainedApart) {
  ModelProto model = SmallModel();
  GraphProto* graph = model.mutable_graph();
  AddWeights(graph, "fc2.weight", {3, 3});
  AddWeights(graph, "fc.bias", {3}, 0);
  AddNode(graph, "Identity", {"fc.bias"}, "fc2.bias");
  AddNode(graph, "Add", {"y", "fc.bias"}, "b");
  SetInt(AddNode(graph, "Gemm", {"b", "fc2.weight", "fc2.bias"}, "z"), "transB", 1);
  AddNode(graph, "Identity", {"fc2.weight"}, "fc3.weight");
  SetInt(AddNode(graph, "Gemm", {"z", "fc3.weight"}, "third"), "transB", 1);
  // A copy that the network makes is the same weight, as are tied weights.
  AddNode(graph, "Identity", {"fc2.weight"}, "/fc4/Identity_output_0");
  SetInt(AddNode(graph, "Gemm", {"third", "/fc4/Identity_output_0"}, "fourth"), "transB", 1);
  SetInt(AddNode(graph, "Gemm", {"fourth", "fc3.weight"}, "fifth"), "transB", 1);
  SetOutput(graph, "fifth");
  const auto imported = Import(model);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(ParameterNames(*imported),
              ElementsAre("conv.weight", "conv.bias", "fc.weight", "fc.bias", "fc2.weight",
                          "fc2.bias", "fc3.weight"));
}

TEST(Onnx, PaddingThatDiffersIsAPadOfItsOwn) {
  const auto model = AroundNode(
      [](GraphProto* graph) {
        AddWeights(graph, "w", {3, 2, 3, 3});
        onnx::NodeProto* conv = AddNode(graph, "Conv", {"x", "w"}, "m");
        SetInts(conv, "pads", {0, 1, 1, 1});
      },
      36);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(OpsOf<Pad>(*model).size(), 1u);
  EXPECT_EQ(OpsOf<Pad>(*model)[0].before, (Shape{0, 0, 0, 1}));
}

TEST(Onnx, LocalResponseNorm) {
  const auto model = AroundNode(
      [](GraphProto* graph) {
        onnx::NodeProto* node = AddNode(graph, "LRN", {"x"}, "m");
        SetInt(node, "size", 5);
      },
      32);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(OpsOf<LocalResponseNorm>(*model)[0].size, 5);
}

TEST(Onnx, SplitConcatAndGlobalPools) {
  const auto model = AroundNode(
      [](GraphProto* graph) {
        onnx::NodeProto* split = AddNode(graph, "Split", {"x"}, "a");
        split->add_output("b");
        SetInt(split, "axis", 1);
        AddNode(graph, "GlobalAveragePool", {"a"}, "mean");
        AddNode(graph, "GlobalMaxPool", {"b"}, "most");
        SetInt(AddNode(graph, "Concat", {"mean", "most"}, "m"), "axis", 1);
      },
      2);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(OpsOf<Slice>(*model).size(), 2u);
  EXPECT_EQ(OpsOf<Pool>(*model).size(), 2u);
}

TEST(Onnx, ShapesAreComputedWhileImporting) {
  const auto model = AroundNode(
      [](GraphProto* graph) {
        AddInts(graph, "zero", {0});
        AddInts(graph, "rest", {-1, 8});
        AddNode(graph, "Shape", {"x"}, "sizes");
        AddNode(graph, "Gather", {"sizes", "zero"}, "n");
        SetInt(AddNode(graph, "Concat", {"n", "rest"}, "to"), "axis", 0);
        AddNode(graph, "Reshape", {"x", "to"}, "m");
      },
      32);
  ASSERT_TRUE(model.ok()) << model.status();
}

// A model for sequences of 5 tokens below 11.
absl::StatusOr<ModelGraph> OfTokens(const std::function<void(GraphProto*)>& add) {
  ModelProto model = EmptyModel({0, 5});
  model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::TensorProto::INT64);
  add(model.mutable_graph());
  SetOutput(model.mutable_graph(), "y");
  return Import(model, 4, Mode::kTrain, {.classes = 11, .length = 5, .vocabulary = 11});
}

TEST(Onnx, TokensOnlyIndexTables) {
  const auto table = [](int64_t rows) {
    return OfTokens([=](GraphProto* graph) {
      AddWeights(graph, "table", {rows, 11});
      AddNode(graph, "Gather", {"table", "x"}, "y");
    });
  };
  EXPECT_TRUE(table(11).ok()) << table(11).status();
  EXPECT_THAT(std::string(table(10).status().message()), HasSubstr("rows for the tokens 0 to 9,"));
  const auto sum = OfTokens([](GraphProto* graph) {
    AddWeights(graph, "w", {4, 5});
    AddNode(graph, "Add", {"x", "w"}, "y");
  });
  EXPECT_THAT(std::string(sum.status().message()), HasSubstr("only index tables"));
}

TEST(Onnx, WhatEngineLacksSaysWhy) {
  const auto spoilt = [](const char* op, const char* attribute, int64_t value) {
    return std::string(AroundNode(
                           [=](GraphProto* graph) {
                             onnx::NodeProto* node = AddNode(graph, op, {"x"}, "m");
                             SetInts(node, "kernel_shape", {3, 3});
                             SetInts(node, "pads", {1, 1, 1, 1});
                             SetInt(node, attribute, value);
                           },
                           32)
                           .status()
                           .message());
  };
  EXPECT_EQ(spoilt("AveragePool", "count_include_pad", 0), "");
  EXPECT_EQ(spoilt("AveragePool", "group", 1), "");
}

// A loop over the elements of these windows would take minutes.
TEST(Onnx, WideWindowsAreCountedWithoutGoingThroughThem) {
  const auto model = AroundNode(
      [](GraphProto* graph) {
        const char* from = "x";
        for (const char* to : {"a", "b", "m"}) {
          onnx::NodeProto* node = AddNode(graph, "AveragePool", {from}, to);
          SetInts(node, "kernel_shape", {65536, 1});
          SetInts(node, "pads", {65535, 0, 65534, 0});
          from = to;
        }
      },
      2 * (4 + 3 * 65534) * 4);
  ASSERT_TRUE(model.ok()) << model.status();
}

TEST(OnnxFold, RangesOfSlices) {
  const auto range = [](int64_t size, int64_t start, int64_t end, int64_t step) {
    const auto made = onnx::SliceRange(size, start, end, step);
    return made.ok() ? std::vector<int64_t>{made->begin, made->length} : std::vector<int64_t>{};
  };
  const int64_t most = INT64_MAX, least = INT64_MIN;
  EXPECT_THAT(range(10, 2, 5, 1), ElementsAre(2, 3));
  EXPECT_THAT(range(10, -3, most, 1), ElementsAre(7, 3));
  EXPECT_THAT(range(10, least, -1, 1), ElementsAre(0, 9));
  EXPECT_THAT(range(10, 0, most, 3), ElementsAre(0, 4));
  EXPECT_THAT(range(10, most, least, -1), ElementsAre(9, 10));
  EXPECT_THAT(range(10, 5, 2, 1), ElementsAre(5, 0));
  EXPECT_TRUE(range(10, 0, 5, 0).empty());
  EXPECT_THAT(range(10, 0, most, most), ElementsAre(0, 1));
}

// What the node makes of the numbers, over `axes`.
std::vector<float> Reduced(const std::string& op, const onnx::ArrayPtr& numbers,
                           const std::vector<int64_t>& axes, Shape* shape) {
  onnx::NodeProto node;
  node.set_op_type(op);
  SetInts(&node, "axes", axes);
  SetInt(&node, "keepdims", 0);
  const auto made = onnx::Fold(node, {numbers}, 13);
  EXPECT_TRUE(made.ok()) << op << ": " << made.status();
  if (!made.ok()) return {};
  *shape = made->front()->shape;
  if (made->front()->real()) return made->front()->reals;
  return {made->front()->ints.begin(), made->front()->ints.end()};
}

TEST(OnnxFold, Reductions) {
  const auto reals = onnx::MakeReals({2, 3, 1}, {1, -2, 4, 3, 2, 0.5});
  const auto ints = onnx::MakeInts({2, 3, 1}, {1, -2, 4, 3, 2, 5});
  const auto log_of = [](double a, double b, double c) {
    return static_cast<float>(std::log(std::exp(a) + std::exp(b) + std::exp(c)));
  };
  Shape shape;
  for (const auto& [op, first, second] : std::vector<std::tuple<const char*, float, float>>{
           {"ReduceSum", 3, 5.5},
           {"ReduceMean", 1, 5.5f / 3},
           {"ReduceProd", -8, 3},
           {"ReduceMax", 4, 3},
           {"ReduceMin", -2, 0.5},
           {"ReduceL1", 7, 5.5},
           {"ReduceL2", std::sqrt(21.0f), std::sqrt(13.25f)},
           {"ReduceSumSquare", 21, 13.25},
           {"ReduceLogSum", std::log(3.0f), std::log(5.5f)},
           {"ReduceLogSumExp", log_of(1, -2, 4), log_of(3, 2, 0.5)}}) {
    EXPECT_THAT(Reduced(op, reals, {1, -1}, &shape), ElementsAre(FloatEq(first), FloatEq(second)));
    EXPECT_EQ(shape, Shape{2}) << op;
  }
  EXPECT_THAT(Reduced("ReduceProd", ints, {0}, &shape), ElementsAre(3, -4, 20));
  EXPECT_EQ(shape, (Shape{3, 1}));
  EXPECT_THAT(Reduced("ReduceSum", ints, {}, &shape), ElementsAre(13));
  EXPECT_EQ(shape, Shape());
  EXPECT_THAT(Reduced("ReduceMin", ints, {0, 1, 2}, &shape), ElementsAre(-2));
}

TEST(OnnxFold, ReductionsThatHaveNoResult) {
  const auto why = [](const std::string& op, const onnx::ArrayPtr& numbers, int64_t axis) {
    onnx::NodeProto node;
    node.set_op_type(op);
    SetInts(&node, "axes", {axis});
    return std::string(onnx::Fold(node, {numbers}, 13).status().message());
  };
  EXPECT_THAT(why("ReduceMean", onnx::MakeInts({2}, {1, 2}), 0), HasSubstr("real numbers only"));
  EXPECT_THAT(why("ReduceSum", onnx::MakeInts({2}, {1, 0}, onnx::Array::Kind::kBool), 0),
              HasSubstr("real numbers only"));
  EXPECT_THAT(why("ReduceMax", onnx::MakeReals({2, 0}, {}), 1), HasSubstr("no elements"));
  EXPECT_THAT(why("ReduceProd", onnx::MakeReals({2}, {1, 2}), 1), HasSubstr("names axis 1 of 1"));
}

}  // namespace
}  // namespace psgd
