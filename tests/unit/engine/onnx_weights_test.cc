// Which values of a file are trained, through which nodes, and which untrained values are listed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/onnx/check.h"
#include "engine/onnx/fold.h"
#include "engine/onnx/import.h"
#include "tests/unit/data/scratch.h"
#include "tests/unit/engine/onnx_maker.h"

namespace psgd {
namespace {

using onnx::GraphProto;
using onnx::ModelProto;
using onnx::TensorProto;
using testing::AddInts;
using testing::AddNode;
using testing::AddWeights;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::EmptyModel;
using ::testing::HasSubstr;
using testing::Import;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::OpsOf;
using testing::ParameterNames;
using testing::SetInt;
using testing::SetInts;
using testing::SetOutput;
using testing::SmallModel;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

// Images of 2 x 4 x 4 times the matrix "m" of 3 x 32, which `add` makes from the weights "w".
ModelProto TimesMade(const Shape& weights, const std::function<void(GraphProto*)>& add) {
  ModelProto model = EmptyModel({0, 2, 4, 4});
  GraphProto* graph = model.mutable_graph();
  AddWeights(graph, "w", weights);
  add(graph);
  AddNode(graph, "Flatten", {"x"}, "flat");
  SetInt(AddNode(graph, "Gemm", {"flat", "m"}, "y"), "transB", 1);
  SetOutput(graph, "y");
  return model;
}

struct Way {
  const char* name;
  Shape weights;
  std::function<void(GraphProto*)> add;
};

std::vector<Way> Ways() {
  return {
      {"Cast", {3, 32}, [](GraphProto* g) { SetInt(AddNode(g, "Cast", {"w"}, "m"), "to", 1); }},
      {"Cast of halves",
       {3, 32},
       [](GraphProto* g) {
         TensorProto* w = g->mutable_initializer(0);
         w->set_data_type(TensorProto::FLOAT16);
         w->clear_float_data();
         for (int i = 0; i < 96; ++i) w->add_int32_data(0x3400);
         SetInt(AddNode(g, "Cast", {"w"}, "m"), "to", TensorProto::FLOAT);
       }},
      {"Expand",
       {1, 32},
       [](GraphProto* g) {
         AddInts(g, "to", {3, 32});
         AddNode(g, "Expand", {"w", "to"}, "m");
       }},
      {"Pad",
       {2, 32},
       [](GraphProto* g) {
         AddInts(g, "pads", {1, 0, 0, 0});
         AddNode(g, "Pad", {"w", "pads"}, "m");
       }},
      {"Neg", {3, 32}, [](GraphProto* g) { AddNode(g, "Neg", {"w"}, "m"); }},
      {"Sqrt", {3, 32}, [](GraphProto* g) { AddNode(g, "Sqrt", {"w"}, "m"); }},
      {"Abs", {3, 32}, [](GraphProto* g) { AddNode(g, "Abs", {"w"}, "m"); }},
      {"Div",
       {3, 32},
       [](GraphProto* g) {
         AddWeights(g, "by", {});
         AddNode(g, "Div", {"w", "by"}, "m");
       }},
      {"Mul",
       {3, 32},
       [](GraphProto* g) {
         AddWeights(g, "by", {});
         AddNode(g, "Mul", {"by", "w"}, "m");
       }},
  };
}

TEST(OnnxWeights, AreTrainedThroughWhatMovesOrScalesThem) {
  for (const Way& way : Ways()) {
    const auto imported = Import(TimesMade(way.weights, way.add));
    ASSERT_TRUE(imported.ok()) << way.name << ": " << imported.status();
    EXPECT_THAT(ParameterNames(*imported), ElementsAre("w")) << way.name;
    EXPECT_EQ(imported->graph.shape(imported->graph.parameters[0].value), way.weights) << way.name;
  }
}

TEST(OnnxWeights, ScaledOnceWhereTheyAreTransposedToo) {
  const auto imported = Import(TimesMade({32, 3}, [](GraphProto* g) {
    AddNode(g, "Neg", {"w"}, "negated");
    AddNode(g, "Transpose", {"negated"}, "m");
  }));
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(OpsOf<Activation>(*imported).size(), 1u);
}

TEST(OnnxWeights, OfSumsAndDifferences) {
  for (const char* op : {"Sum", "Sub"}) {
    for (const bool first : {false, true}) {
      ModelProto model = SmallModel();
      AddWeights(model.mutable_graph(), "bias", {3});
      AddNode(model.mutable_graph(), op, {first ? "bias" : "y", first ? "y" : "bias"}, "z");
      SetOutput(model.mutable_graph(), "z");
      const auto imported = Import(model);
      ASSERT_TRUE(imported.ok()) << imported.status();
      EXPECT_THAT(ParameterNames(*imported), Contains("bias")) << op << first;
    }
  }
}

std::vector<std::string> Notes(const ModelProto& model, const ModelConfig& config = {}) {
  const auto file = onnx::OnnxFile::Parse(model.SerializeAsString(), "small.onnx");
  EXPECT_TRUE(file.ok()) << file.status();
  onnx::Importer importer(*file, {.config = config});
  const absl::Status chosen = importer.ChooseTrained();
  EXPECT_TRUE(chosen.ok()) << chosen;
  return importer.Notes();
}
// The note on values that are held for a reason.
std::string Held(const std::string& why, const std::string& values) {
  return "not trained, but kept as the file has them (" + why + "): " + values;
}
constexpr char kOperands[] = "operands that are not trained, as divisors";
constexpr char kConstants[] = "Constant nodes";
constexpr char kNumbers[] = "numbers without an axis";
constexpr char kUnmarked[] =
    "numbers without an axis, which the file does not mark as parameters or buffers; to train "
    "parameters, export with dynamo=True, optimize=False";
constexpr char kUnreached[] = "no gradient of the loss reaches them";
constexpr char kLost[] =
    "exponents, bounds of Clip, and what goes through Trilu, CumSum, ReduceProd or ScatterND, "
    "which "
    "psgd does not train";
constexpr char kAngles[] = "angles of a sine or cosine";
constexpr char kBounds[] = "bounds and values to fill in";

TEST(OnnxWeights, WhatIsHeldFixedIsNamed) {
  ModelProto model = SmallModel();
  EXPECT_THAT(Notes(model), IsEmpty());
  GraphProto* graph = model.mutable_graph();
  AddWeights(graph, "by", {3}, 2);
  AddNode(graph, "Div", {"y", "by"}, "z");
  AddWeights(graph, "unused", {3, 3});
  AddNode(graph, "Identity", {"unused"}, "elsewhere");
  SetOutput(graph, "z");
  onnx::NodeProto* node = graph->mutable_node()->Add();
  node->set_op_type("Constant");
  node->add_output("k");
  onnx::AttributeProto* value = node->add_attribute();
  value->set_name("value");
  value->mutable_t()->set_data_type(TensorProto::FLOAT);
  for (const int64_t size : {3, 20}) value->mutable_t()->add_dims(size);
  for (int i = 0; i < 60; ++i) value->mutable_t()->add_float_data(1);
  for (int i = graph->node_size() - 1; i > 0; --i) graph->mutable_node()->SwapElements(i, i - 1);
  graph->mutable_node(4)->set_input(1, "k");  // replaces fc.weight
  const auto imported = Import(model);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(ParameterNames(*imported), ElementsAre("conv.weight", "conv.bias"));
  EXPECT_THAT(Notes(model), ElementsAre(Held(kConstants, "k (3x20)"), Held(kOperands, "by (3)")));
  ModelConfig config;
  config.add_frozen("by");
  EXPECT_THAT(Notes(model, config), ElementsAre(Held(kConstants, "k (3x20)")));
}

// Logits times exp(scale), clipped, and divided by a temperature, plus the logits' least.
ModelProto Scaled(const std::string& scale, const std::string& temperature) {
  ModelProto model = SmallModel();
  model.set_producer_name("pytorch");
  GraphProto* graph = model.mutable_graph();
  for (const char* name : {"least", "most"}) AddWeights(graph, name, {}, name[0] == 'l' ? -9 : 9);
  for (const std::string& name : {scale, temperature}) AddWeights(graph, name, {}, 2);
  AddWeights(graph, "floor", {}, -5);
  AddNode(graph, "Clip", {scale, "least", "most"}, "clipped");
  AddNode(graph, "Exp", {"clipped"}, "factor");
  AddNode(graph, "Mul", {"y", "factor"}, "scaled");
  AddNode(graph, "Div", {"scaled", temperature}, "warm");
  AddNode(graph, "Max", {"warm", "floor"}, "z");
  SetOutput(graph, "z");
  return model;
}

// Marks a value as PyTorch's newer exporter does.
void MarkAs(GraphProto* graph, const std::string& name, const std::string& kind) {
  onnx::ValueInfoProto* info = graph->add_value_info();
  info->set_name(name);
  onnx::StringStringEntryProto* mark = info->add_metadata_props();
  mark->set_key("pkg.torch.export.graph_signature.InputSpec.kind");
  mark->set_value(kind);
}

TEST(OnnxWeights, NumbersAreTrainedIfTheFileMarksThemAsParameters) {
  ModelProto model = Scaled("head.scale", "head.temperature");
  const std::vector<std::string> weights = {"conv.weight", "conv.bias", "fc.weight"};
  const auto unmarked = Import(model);
  ASSERT_TRUE(unmarked.ok()) << unmarked.status();
  EXPECT_THAT(ParameterNames(*unmarked), ElementsAreArray(weights));
  EXPECT_THAT(Notes(model),
              ElementsAre(Held(kLost, "least (scalar), most (scalar)"),
                          Held(kUnmarked,
                               "floor (scalar), head.scale (scalar), head.temperature (scalar)")));
  ModelConfig config;
  for (const char* glob : {"head.*", "*st", "floor"}) config.add_frozen(glob);
  EXPECT_THAT(Notes(model, config), IsEmpty());

  for (const char* name : {"/head/Constant_output_0", "onnx::Mul_12", "12"}) {
    EXPECT_THAT(Notes(Scaled(name, "head.temperature")),
                Contains(Held(kNumbers, name + std::string(" (scalar)"))));
  }
  ModelProto other = model;
  other.set_producer_name("tf2onnx");
  EXPECT_THAT(Notes(other), ElementsAre(Held(kNumbers, "head.scale (scalar)")));

  for (const std::string& name : weights) MarkAs(model.mutable_graph(), name, "PARAMETER");
  for (const char* name : {"head.scale", "head.temperature", "floor"}) {
    MarkAs(model.mutable_graph(), name, "PARAMETER");
  }
  const auto marked = Import(model);
  ASSERT_TRUE(marked.ok()) << marked.status();
  EXPECT_THAT(ParameterNames(*marked), ElementsAre("conv.weight", "conv.bias", "fc.weight",
                                                   "head.scale", "head.temperature", "floor"));
  EXPECT_EQ(marked->graph.shape(marked->graph.parameters[3].value), Shape{1});
  EXPECT_FALSE(marked->graph.parameters[3].decay);
}

TEST(OnnxWeights, NoEpsilonOfAnUnmarkedFileIsTrained) {
  ModelProto model = SmallModel();
  model.set_producer_name("pytorch");
  GraphProto* graph = model.mutable_graph();
  AddWeights(graph, "eps", {}, 1e-5f);
  AddNode(graph, "Abs", {"y"}, "size");
  AddNode(graph, "Add", {"size", "eps"}, "above");
  AddNode(graph, "Div", {"y", "above"}, "z");
  SetOutput(graph, "z");
  const auto imported = Import(model);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(ParameterNames(*imported), Not(Contains("eps")));
  EXPECT_THAT(Notes(model), ElementsAre(Held(kUnmarked, "eps (scalar)")));
}

TEST(OnnxWeights, WhatOnlyConditionsReadIsHeld) {
  ModelProto model = SmallModel();
  GraphProto* graph = model.mutable_graph();
  for (const char* name : {"limit", "weight"}) AddWeights(graph, name, {3});
  AddNode(graph, "Mul", {"limit", "limit"}, "square");
  AddNode(graph, "Greater", {"y", "square"}, "large");
  AddNode(graph, "Mul", {"y", "weight"}, "other");
  AddNode(graph, "Where", {"large", "y", "other"}, "z");
  SetOutput(graph, "z");
  const auto imported = Import(model);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(ParameterNames(*imported), AllOf(Contains("weight"), Not(Contains("limit"))));
  EXPECT_THAT(Notes(model), ElementsAre(Held(kUnreached, "limit (3)")));
}

TEST(OnnxWeights, MarksTellParametersFromBuffers) {
  ModelProto model = Scaled("scale", "temperature");
  GraphProto* graph = model.mutable_graph();
  MarkAs(graph, "x", "USER_INPUT");
  for (const char* name : {"conv.bias", "fc.weight", "scale"}) MarkAs(graph, name, "PARAMETER");
  for (const char* name : {"conv.weight", "temperature"}) MarkAs(graph, name, "BUFFER");
  const auto imported = Import(model);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(ParameterNames(*imported), ElementsAre("conv.bias", "fc.weight", "scale"));
  EXPECT_THAT(Notes(model), ElementsAre(Held("buffers of PyTorch",
                                             "conv.weight (5x2x3x3), temperature (scalar)")));
  graph->mutable_value_info()->DeleteSubrange(4, 2);  // the marks of buffers
  EXPECT_THAT(Notes(model),
              ElementsAre("trained in place of the parameters that the exporter computed them from "
                          "(export with optimize=False to train the parameters): "
                          "conv.weight (5x2x3x3)"));
}

TEST(OnnxWeights, NumbersHaveNoAxisInWhatTheyMake) {
  ModelProto model = SmallModel();
  GraphProto* graph = model.mutable_graph();
  std::vector<std::string> parts;
  for (const std::string name : {"first", "second", "third"}) {
    AddWeights(graph, name, {});
    MarkAs(graph, name, "PARAMETER");
    AddNode(graph, "Exp", {name}, name + ".exp");
    SetInts(AddNode(graph, "Unsqueeze", {name + ".exp"}, name + ".row"), "axes", {0});
    parts.push_back(name + ".row");
  }
  SetInt(AddNode(graph, "Concat", parts, "factors"), "axis", 0);
  AddNode(graph, "Mul", {"y", "factors"}, "z");
  SetOutput(graph, "z");
  model.mutable_opset_import(0)->set_version(11);
  const auto imported = Import(model);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(OpsOf<Concat>(*imported).size(), 1u);
  for (const auto& node : imported->graph.nodes) {
    if (std::holds_alternative<Concat>(node.op)) {
      EXPECT_EQ(imported->graph.shape(node.outputs[0]), Shape{3});
    }
  }
}

TEST(OnnxWeights, OfOneElementLoseTheirAxes) {
  for (const char* op : {"Squeeze", "Reshape", "ReduceSum"}) {
    ModelProto model = SmallModel();
    GraphProto* graph = model.mutable_graph();
    AddWeights(graph, "w", {1, 1});
    AddInts(graph, "none", {});
    if (std::string(op) == "Reshape") {
      AddNode(graph, op, {"w", "none"}, "number");
    } else {
      onnx::NodeProto* node = AddNode(graph, op, {"w"}, "number");
      if (std::string(op) == "ReduceSum") SetInt(node, "keepdims", 0);
    }
    AddInts(graph, "axes", {0});
    AddNode(graph, "Unsqueeze", {"number", "axes"}, "row");
    AddNode(graph, "Mul", {"y", "number"}, "scaled");
    SetInt(AddNode(graph, "Concat", {"row", "row", "row"}, "factors"), "axis", 0);
    AddNode(graph, "Mul", {"scaled", "factors"}, "z");
    SetOutput(graph, "z");
    const auto imported = Import(model);
    ASSERT_TRUE(imported.ok()) << op << ": " << imported.status();
    for (const Tensor& tensor : imported->graph.tensors) {
      EXPECT_THAT(tensor.shape, Not(IsEmpty())) << op << " " << tensor.name;
    }
  }
}

// Images of 2 x 4 x 4 times tril(w), to a power.
ModelProto Causal(const Shape& power) {
  ModelProto model = TimesMade({3, 32}, [&](GraphProto* g) {
    AddWeights(g, "p", power, 3);
    AddNode(g, "Neg", {"w"}, "negative");
    SetInt(AddNode(g, "Trilu", {"negative"}, "lower"), "upper", 0);
    AddWeights(g, "other", {3, 32});
    AddNode(g, "Add", {"lower", "other"}, "m");
  });
  AddNode(model.mutable_graph(), "Pow", {"y", "p"}, "z");
  SetOutput(model.mutable_graph(), "z");
  return model;
}

TEST(OnnxWeights, WhatPyTorchAloneWouldTrainIsNotedAndRefusedIfMarked) {
  ScratchFolder folder;
  for (const Shape& power : {Shape{1}, Shape{}}) {
    ModelProto model = Causal(power);
    const auto imported = Import(model);
    ASSERT_TRUE(imported.ok()) << imported.status();
    EXPECT_THAT(ParameterNames(*imported), ElementsAre("other"));
    EXPECT_THAT(Notes(model),
                ElementsAre(Held(kLost, power.empty() ? "w (3x32)" : "p (1), w (3x32)")));
    for (const char* name : {"other", "p"}) MarkAs(model.mutable_graph(), name, "PARAMETER");
    EXPECT_TRUE(Import(model).ok()) << "one element is noted";
    MarkAs(model.mutable_graph(), "w", "PARAMETER");
    EXPECT_TRUE(Import(model).ok()) << "runs of earlier versions go on";
    EXPECT_THAT(Notes(model), Contains(HasSubstr("w (3x32)")));
    WriteFile(folder.File("lost.onnx"), model.SerializeAsString());
    EXPECT_THAT(CheckOnnx(folder.File("lost.onnx"), {})->problems.at(0).why,
                HasSubstr("PyTorch trains its parameter w"));
    ModelConfig config;
    config.set_onnx(folder.File("lost.onnx"));
    const auto facts = FactsOfOnnx(config);
    ASSERT_TRUE(facts.ok()) << facts.status();
    EXPECT_THAT(std::string(facts->lost.message()),
                AllOf(HasSubstr("PyTorch trains its parameter w (3x32), and psgd would not"),
                      HasSubstr("model.frozen: [w]")));
    EXPECT_THAT(facts->check.notes,
                Contains(AllOf(StartsWith(config.onnx() + ": "), HasSubstr("w (3x32)"))));
    ASSERT_EQ(facts->check.trained.size(), 1u);
    EXPECT_EQ(facts->check.trained[0].name, "other");
    EXPECT_EQ(facts->check.ops.size(), CheckOnnx(config.onnx(), {})->ops.size());
    config.add_frozen("w");
    EXPECT_TRUE(FactsOfOnnx(config)->lost.ok());
    EXPECT_THAT(Notes(model, config), ElementsAre(Held(kLost, "p (" + ShapeText(power) + ")")));
  }
}

TEST(OnnxWeights, MarkedParametersThatAlsoGoAnotherWayAreTrained) {
  ModelProto model = Causal({1});
  GraphProto* graph = model.mutable_graph();
  graph->mutable_node(2)->set_input(1, "w");  // tril(-w) + w
  for (const char* name : {"w", "p"}) MarkAs(graph, name, "PARAMETER");
  EXPECT_THAT(Notes(model), ElementsAre(Held(kLost, "p (1)")));
}

// Adds "bound" as an operand of a choice between the logits and it.
ModelProto ChoiceOf(const std::string& op, const Shape& bound, bool negated) {
  ModelProto model = SmallModel();
  GraphProto* graph = model.mutable_graph();
  AddWeights(graph, "bound", bound);
  const std::string operand = negated ? "negative" : "bound";
  if (negated) AddNode(graph, "Neg", {"bound"}, operand);
  if (op == "Where") {
    AddWeights(graph, "limit", {});
    AddNode(graph, "Greater", {"y", "limit"}, "large");
    AddNode(graph, op, {"large", "y", operand}, "z");
  } else {
    AddNode(graph, op, {"y", operand}, "z");
  }
  SetOutput(graph, "z");
  return model;
}

TEST(OnnxWeights, OneElementIsABoundAndManyAreWeights) {
  for (const char* op : {"Where", "Max", "Min"}) {
    for (const bool negated : {false, true}) {
      for (const Shape& shape : {Shape{1}, Shape{1, 1}}) {
        const ModelProto model = ChoiceOf(op, shape, negated);
        const auto imported = Import(model);
        ASSERT_TRUE(imported.ok()) << op << ": " << imported.status();
        EXPECT_THAT(ParameterNames(*imported), Not(Contains("bound"))) << op << negated;
        EXPECT_THAT(Notes(model), ElementsAre(Held(kBounds, "bound (" + ShapeText(shape) + ")")));
      }
      const ModelProto model = ChoiceOf(op, {3}, negated);
      const auto imported = Import(model);
      ASSERT_TRUE(imported.ok()) << op << ": " << imported.status();
      EXPECT_THAT(ParameterNames(*imported), Contains("bound")) << op << negated;
      EXPECT_THAT(Notes(model), IsEmpty());
    }
    ModelProto model = ChoiceOf(op, {1}, false);  // the bound is also a weight
    AddNode(model.mutable_graph(), "Mul", {"z", "bound"}, "scaled");
    SetOutput(model.mutable_graph(), "scaled");
    const auto imported = Import(model);
    ASSERT_TRUE(imported.ok()) << op << ": " << imported.status();
    EXPECT_THAT(ParameterNames(*imported), Contains("bound")) << op;
  }
}

// Adds sin(places * w + b) to the logits, and w where `elsewhere`.
ModelProto Waves(bool elsewhere) {
  ModelProto model = SmallModel();
  GraphProto* graph = model.mutable_graph();
  for (const char* name : {"places", "w", "b"}) AddWeights(graph, name, {3});
  AddNode(graph, "Mul", {"places", "w"}, "turned");
  AddNode(graph, "Add", {"turned", "b"}, "angle");
  AddNode(graph, "Shape", {"w"}, "size");
  AddNode(graph, "Sin", {"angle"}, "wave");
  AddNode(graph, "Add", {"y", "wave"}, "z");
  if (elsewhere) AddNode(graph, "Add", {"z", "w"}, "moved");
  SetOutput(graph, elsewhere ? "moved" : "z");
  return model;
}

TEST(OnnxWeights, AnglesAreTrainedIfTheyServeElsewhere) {
  const auto angles = Import(Waves(false));
  ASSERT_TRUE(angles.ok()) << angles.status();
  EXPECT_THAT(ParameterNames(*angles), ElementsAre("conv.weight", "conv.bias", "fc.weight"));
  EXPECT_THAT(Notes(Waves(false)), ElementsAre(Held(kAngles, "b (3), places (3), w (3)")));
  const auto weights = Import(Waves(true));
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_THAT(ParameterNames(*weights),
              UnorderedElementsAre("conv.weight", "conv.bias", "fc.weight", "w"));
  EXPECT_THAT(Notes(Waves(true)), ElementsAre(Held(kAngles, "b (3), places (3)")));
}

// Images of 2 x 4 x 4 times "table", twice, through Identity nodes of these names.
ModelProto TwiceNamed(const std::string& first, const std::string& second) {
  ModelProto model = EmptyModel({0, 2, 4, 4});
  GraphProto* graph = model.mutable_graph();
  AddWeights(graph, "table", {32, 32});
  AddWeights(graph, "fc.weight", {3, 32});
  AddNode(graph, "Flatten", {"x"}, "flat");
  AddNode(graph, "Identity", {"table"}, first);
  AddNode(graph, "Identity", {"table"}, second);
  AddNode(graph, "MatMul", {"flat", first}, "one");
  AddNode(graph, "MatMul", {"one", second}, "two");
  SetInt(AddNode(graph, "Gemm", {"two", "fc.weight"}, "y"), "transB", 1);
  SetOutput(graph, "y");
  return model;
}

int64_t CountedWeights(const ModelProto& model) {
  const auto file = onnx::OnnxFile::Parse(model.SerializeAsString(), "small.onnx");
  EXPECT_TRUE(file.ok()) << file.status();
  onnx::Importer importer(*file,
                          {.batch = 4, .shape = testing::kSmallShape, .config = ModelConfig()});
  EXPECT_TRUE(importer.FindProblems().ok());
  return importer.CountWeights();
}

TEST(OnnxWeights, TrainApartUnderNamesOfPyTorchsParametersAlone) {
  constexpr int64_t kTable = 32 * 32, kRest = 3 * 32;
  for (const auto& [first, second] :
       {std::pair{"model/emb/embedding_lookup/Identity:0", "model/dense/MatMul/ReadVariableOp:0"},
        {"/a/Identity_output_0", "/b/Identity_output_0"},
        {"a/Identity", "onnx::MatMul_12"},
        {"12", "13"}}) {
    const ModelProto model = TwiceNamed(first, second);
    const auto imported = Import(model);
    ASSERT_TRUE(imported.ok()) << imported.status();
    EXPECT_THAT(ParameterNames(*imported), ElementsAre("table", "fc.weight")) << first;
    EXPECT_THAT(Notes(model), IsEmpty());
    EXPECT_EQ(CountedWeights(model), kTable + kRest) << first;
  }
  // A table that PyTorch's exporter has transposed, and merged with an equal one.
  ModelProto folded = TwiceNamed("onnx::MatMul_12", "/a/Identity_output_0");
  folded.set_producer_name("pytorch");
  const auto imported = Import(folded);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(ParameterNames(*imported), ElementsAre("onnx::MatMul_12", "table", "fc.weight"));
  for (const char* producer : {"", "pytorch", "tf2onnx"}) {
    ModelProto model = TwiceNamed("layers.0.table", "layers.1.table");
    model.set_producer_name(producer);
    const auto imported = Import(model);
    ASSERT_TRUE(imported.ok()) << imported.status();
    if (std::string(producer) == "tf2onnx") {
      EXPECT_THAT(ParameterNames(*imported), ElementsAre("table", "fc.weight"));
      EXPECT_THAT(Notes(model), IsEmpty());
      EXPECT_EQ(CountedWeights(model), kTable + kRest);
      continue;
    }
    EXPECT_THAT(ParameterNames(*imported),
                ElementsAre("layers.0.table", "layers.1.table", "fc.weight"));
    EXPECT_THAT(Notes(model),
                ElementsAre("trained apart, though the file has their values once: layers.0.table "
                            "(as table), layers.1.table (as table)"));
    EXPECT_EQ(CountedWeights(model), 2 * kTable + kRest);
  }
}

TEST(OnnxWeights, NaNIsRefusedWhereTheOutputDependsOnIt) {
  ModelProto model = SmallModel();
  model.mutable_graph()->mutable_initializer(2)->set_float_data(7, std::nanf(""));
  const absl::Status status = Import(model).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("has NaN in fc.weight (value 7 of 3x20)"), HasSubstr("export it again")));
  model = SmallModel();
  AddWeights(model.mutable_graph(), "unused", {3}, std::nanf(""));
  EXPECT_TRUE(Import(model).ok()) << Import(model).status();
  onnx::AttributeProto* row = AddNode(model.mutable_graph(), "Constant", {}, "k")->add_attribute();
  row->set_name("value_floats");
  for (const float value : {1.0f, 2.0f, std::nanf("")}) row->add_floats(value);
  AddNode(model.mutable_graph(), "Add", {"y", "k"}, "z");
  SetOutput(model.mutable_graph(), "z");
  EXPECT_THAT(std::string(Import(model).status().message()),
              HasSubstr("Constant node k_node: holds NaN"));
}

TEST(OnnxWeights, NamesThatShardsDoNotTakeAreReplacedByOthersOfTheirOwn) {
  const std::string w = "w 1", v = "w\xc3\xa9", longest(256, 'b'), longer(257, 'b');
  ModelProto model = EmptyModel({0, 2});
  GraphProto* graph = model.mutable_graph();
  AddWeights(graph, w, {3, 2});
  AddWeights(graph, "w_1", {3, 3});
  AddWeights(graph, v, {3, 3});
  AddWeights(graph, longest, {3});
  AddWeights(graph, longer, {3});
  SetInt(AddNode(graph, "Gemm", {"x", w, longest}, "a b"), "transB", 1);
  SetInt(AddNode(graph, "Gemm", {"a b", "w_1", longer}, "c"), "transB", 1);
  SetInt(AddNode(graph, "Gemm", {"c", v}, "the end"), "transB", 1);
  SetOutput(graph, "the end");
  const auto imported = Import(model, 4, Mode::kTrain, {1, 1, 2, 3});
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(ParameterNames(*imported),
              UnorderedElementsAre("w_1_1", "w_1", "w__", longest, std::string(244, 'b')));
}

TEST(OnnxWeights, SizesThatContradictTheFileAreRefused) {
  ScratchFolder folder;
  const auto check = [&](const Shape& input, SampleShape asked) {
    ModelProto model = input.size() == 4 ? SmallModel() : EmptyModel(input);
    if (input.size() == 2) {
      AddWeights(model.mutable_graph(), "w", {6, 3});
      AddNode(model.mutable_graph(), "MatMul", {"x", "w"}, "y");
      SetOutput(model.mutable_graph(), "y");
    }
    WriteFile(folder.File("sizes.onnx"), model.SerializeAsString());
    return CheckOnnx(folder.File("sizes.onnx"), asked).status();
  };
  for (const int64_t fixed : {6, 0}) {
    for (const SampleShape& asked : {SampleShape{.length = 6}, SampleShape{1, 1, 6}}) {
      EXPECT_TRUE(check({0, fixed}, asked).ok()) << check({0, fixed}, asked);
    }
  }
  EXPECT_TRUE(check({0, 6}, {1, 2, 3}).ok()) << "images that become rows";
  EXPECT_TRUE(check({0, 2, 4, 4}, {2, 4, 4}).ok());
  EXPECT_THAT(std::string(check({0, 6}, {3, 224, 224}).message()),
              AllOf(HasSubstr("--shape 3,224,224 contradicts the model"),
                    HasSubstr("which takes images of 1x1x6; leave --shape out")));
  EXPECT_THAT(std::string(check({0, 6}, {.length = 7}).message()), HasSubstr("--shape 7 "));
  EXPECT_FALSE(check({0, 2, 4, 4}, {2, 8, 2}).ok());
  EXPECT_FALSE(check({0, 2, 4, 4}, {.length = 32}).ok());
}

}  // namespace
}  // namespace psgd
