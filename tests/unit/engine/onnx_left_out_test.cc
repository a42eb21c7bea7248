// Choices through which training would get gradients that are NaN.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

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
using ::testing::HasSubstr;
using testing::Import;
using testing::SetInt;
using testing::SetInts;

// Makes "left" of the sample's "x" of 2 x 4 x 4 and of "h", which trained weights make of it.
using Branch = std::function<void(GraphProto*)>;

// Where(x > 0, left, 0), or with branches flipped, and a dense layer.
ModelProto WhereOf(const Branch& branch, bool flipped = false,
                   const std::string& condition = "positive") {
  ModelProto model = testing::EmptyModel({0, 2, 4, 4});
  GraphProto* g = model.mutable_graph();
  AddWeights(g, "conv.weight", {2, 2, 1, 1});
  AddNode(g, "Conv", {"x", "conv.weight"}, "h");
  AddWeights(g, "w", {4}, 1);
  AddWeights(g, "zero", {}, 0);
  AddWeights(g, "one", {}, 1);
  AddNode(g, "Greater", {"x", "zero"}, "positive");
  branch(g);
  AddNode(g, "Where",
          flipped ? std::vector<std::string>{condition, "zero", "left"}
                  : std::vector<std::string>{condition, "left", "zero"},
          "m");
  AddWeights(g, "fc.weight", {3, 32});
  AddNode(g, "Flatten", {"m"}, "flat");
  SetInt(AddNode(g, "Gemm", {"flat", "fc.weight"}, "y"), "transB", 1);
  testing::SetOutput(g, "y");
  return model;
}

void Clip(GraphProto* g, const std::string& x, float low, float high, const std::string& y) {
  AddWeights(g, y + ".low", {}, low);
  AddWeights(g, y + ".high", {}, high);
  AddNode(g, "Clip", {x, y + ".low", y + ".high"}, y);
}

void Reduce(GraphProto* g, const char* op, const std::string& x, const std::string& y) {
  NodeProto* node = AddNode(g, op, {x}, y);
  if (std::string(op) == "ReduceSum") {
    AddInts(g, y + ".axes", {3});
    node->add_input(y + ".axes");
  } else {
    SetInts(node, "axes", {3});
  }
}

struct LeftOutCase {
  const char* name;
  Branch branch;
  const char* because = "";  // what may be infinite; empty: the choice is taken
};
void PrintTo(const LeftOutCase& test, std::ostream* out) { *out << test.name; }

class LeftOut : public ::testing::TestWithParam<LeftOutCase> {};

TEST_P(LeftOut, IsRefusedWhereItsGradientMayBeNaN) {
  for (const bool flipped : {false, true}) {
    const ModelProto model = WhereOf(GetParam().branch, flipped);
    const absl::Status status = Import(model).status();
    if (*GetParam().because == '\0') {
      EXPECT_TRUE(status.ok()) << status;
      continue;
    }
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("Where node m_node: leaves out values that may be infinite or NaN"),
                      HasSubstr(GetParam().because), HasSubstr("in PyTorch, too: ")));
    // Evaluation has no gradients.
    const auto evaluated = Import(model, 4, Mode::kEvaluate);
    EXPECT_TRUE(evaluated.ok()) << evaluated.status();
  }
}

const LeftOutCase kLeftOutCases[] = {
    {"LogTimesWeight",
     [](GraphProto* g) {
       AddNode(g, "Log", {"x"}, "log");
       AddNode(g, "Mul", {"log", "w"}, "left");
     },
     "the logarithm log; "},
    {"LogOfTrained", [](GraphProto* g) { AddNode(g, "Log", {"h"}, "left"); },
     "torch.clamp(x, min=1e-6)"},
    {"LogFarBefore",
     [](GraphProto* g) {
       AddNode(g, "Log", {"x"}, "log");
       AddNode(g, "Mul", {"log", "w"}, "scaled");
       AddNode(g, "Tanh", {"scaled"}, "curved");
       AddNode(g, "Add", {"curved", "x"}, "left");
     },
     "the logarithm"},
    {"SumOfLogsTimesWeight",
     [](GraphProto* g) {
       AddNode(g, "Log", {"x"}, "log");
       AddNode(g, "Mul", {"log", "w"}, "scaled");
       Reduce(g, "ReduceSum", "scaled", "sum");
       AddInts(g, "whole", {4, 2, 4, 4});
       AddNode(g, "Expand", {"sum", "whole"}, "left");
     },
     "the logarithm"},
    {"DenseOfLog",
     [](GraphProto* g) {
       AddNode(g, "Log", {"x"}, "log");
       AddWeights(g, "matrix", {4, 4});
       AddNode(g, "MatMul", {"log", "matrix"}, "left");
     },
     "the logarithm"},
    {"Quotient",
     [](GraphProto* g) {
       AddNode(g, "Div", {"h", "x"}, "left");
     },
     "the division"},
    {"QuotientBySum",
     [](GraphProto* g) {
       Reduce(g, "ReduceSum", "h", "sum");
       AddNode(g, "Div", {"h", "sum"}, "left");
     },
     "the division"},
    {"Root", [](GraphProto* g) { AddNode(g, "Sqrt", {"h"}, "left"); }, "the root left; "},
    {"InfiniteFactor",
     [](GraphProto* g) {
       AddWeights(g, "many", {4}, std::numeric_limits<float>::infinity());
       AddNode(g, "Mul", {"h", "many"}, "left");
     },
     "a constant that is not finite"},
    // What is not trained has no gradient.
    {"Log", [](GraphProto* g) { AddNode(g, "Log", {"x"}, "left"); }},
    {"LogPlusWeight",
     [](GraphProto* g) {
       AddNode(g, "Log", {"x"}, "log");
       AddNode(g, "Add", {"log", "w"}, "left");
     }},
    // The message's advice helps.
    {"LogOfBounded",
     [](GraphProto* g) {
       Clip(g, "h", 1e-6f, 1e6f, "bounded");
       AddNode(g, "Log", {"bounded"}, "log");
       AddNode(g, "Mul", {"log", "w"}, "left");
     }},
    {"QuotientByBounded",
     [](GraphProto* g) {
       Reduce(g, "ReduceL2", "h", "norm");
       Clip(g, "norm", 1e-6f, 1e6f, "bounded");
       AddNode(g, "Div", {"h", "bounded"}, "left");
     }},
    {"EluByHand",
     [](GraphProto* g) {
       AddNode(g, "Exp", {"h"}, "exp");
       AddNode(g, "Sub", {"exp", "one"}, "left");
     }},
    {"LogOfChosen",
     [](GraphProto* g) {
       AddNode(g, "Greater", {"h", "zero"}, "above");
       AddNode(g, "Where", {"above", "h", "one"}, "safe");
       AddNode(g, "Log", {"safe"}, "left");
     }},
    {"LogOfChosenByTheOpposite",
     [](GraphProto* g) {
       AddNode(g, "LessOrEqual", {"h", "zero"}, "below");
       AddNode(g, "Where", {"below", "one", "h"}, "safe");
       AddNode(g, "Log", {"safe"}, "left");
     }},
    {"LogOfChosenWrongly",
     [](GraphProto* g) {
       AddNode(g, "GreaterOrEqual", {"h", "zero"}, "above");
       AddNode(g, "Where", {"above", "h", "one"}, "safe");
       AddNode(g, "Log", {"safe"}, "left");
     },
     "the logarithm left"},
    // Numbers that cannot leave their range.
    {"RootOfSquares",
     [](GraphProto* g) {
       AddWeights(g, "epsilon", {}, 1e-5f);
       AddWeights(g, "two", {}, 2);
       AddNode(g, "Pow", {"h", "two"}, "squares");
       Reduce(g, "ReduceMean", "squares", "mean");
       AddNode(g, "Add", {"mean", "epsilon"}, "above");
       AddNode(g, "Sqrt", {"above"}, "root");
       AddNode(g, "Div", {"h", "root"}, "normal");
       AddNode(g, "Mul", {"normal", "w"}, "left");
     }},
    {"SoftmaxByHand",
     [](GraphProto* g) {
       AddWeights(g, "eighth", {}, 0.125f);
       AddNode(g, "Mul", {"h", "eighth"}, "scores");
       Reduce(g, "ReduceMax", "scores", "most");
       AddNode(g, "Sub", {"scores", "most"}, "less");
       AddNode(g, "Exp", {"less"}, "exp");
       Reduce(g, "ReduceSum", "exp", "sum");
       AddNode(g, "Div", {"exp", "sum"}, "left");
     }},
    {"LogSumExp",
     [](GraphProto* g) {
       Reduce(g, "ReduceLogSumExp", "h", "sum");
       AddNode(g, "Sub", {"h", "sum"}, "left");
     }},
    {"SoftmaxOfMasked",
     [](GraphProto* g) {
       AddWeights(g, "mask", {4, 4}, -std::numeric_limits<float>::infinity());
       onnx::TensorProto* mask = g->mutable_initializer(g->initializer_size() - 1);
       for (int i = 0; i < 4; ++i) mask->set_float_data(i * 5, 0);
       AddNode(g, "Add", {"h", "mask"}, "masked");
       AddNode(g, "Softmax", {"masked"}, "left");
     }},
    {"InfiniteMaskChosenBefore",
     [](GraphProto* g) {
       AddWeights(g, "mask", {4, 4}, -std::numeric_limits<float>::infinity());
       AddWeights(g, "limit", {}, 0.5f);
       AddNode(g, "Less", {"h", "limit"}, "low");
       AddNode(g, "Where", {"low", "h", "mask"}, "masked");
       AddNode(g, "Softmax", {"masked"}, "left");
     }},
    // A layer between takes up what diverged before it.
    {"ProductOfQuotients",
     [](GraphProto* g) {
       AddNode(g, "Div", {"h", "x"}, "quotient");
       AddWeights(g, "matrix", {4, 4});
       AddNode(g, "MatMul", {"quotient", "matrix"}, "product");
       AddNode(g, "MatMul", {"product", "matrix"}, "left");
     }},
    {"WeightNorm",
     [](GraphProto* g) {
       AddWeights(g, "direction", {4, 4});
       SetInts(AddNode(g, "ReduceL2", {"direction"}, "length"), "axes", {1});
       AddNode(g, "Div", {"direction", "length"}, "unit");
       AddNode(g, "MatMul", {"h", "unit"}, "left");
     }},
    {"ScaledByTrainedExponential",
     [](GraphProto* g) {
       AddWeights(g, "temperature", {1});
       AddNode(g, "Exp", {"temperature"}, "factor");
       AddNode(g, "Mul", {"h", "factor"}, "left");
     }},
};

INSTANTIATE_TEST_SUITE_P(Cases, LeftOut, ::testing::ValuesIn(kLeftOutCases),
                         [](const auto& info) { return std::string(info.param.name); });

// The usual remedy in PyTorch: another choice by the same condition, before the logarithm.
TEST(LeftOutTwice, ByOneConditionIsTaken) {
  const auto choosing = [](const std::string& condition, bool h_first) {
    return [=](GraphProto* g) {
      AddNode(g, "Not", {"positive"}, "other");
      AddNode(g, "Greater", {"x", "zero"}, "again");
      AddNode(g, "Where",
              h_first ? std::vector<std::string>{condition, "h", "one"}
                      : std::vector<std::string>{condition, "one", "h"},
              "safe");
      AddNode(g, "Log", {"safe"}, "left");
    };
  };
  for (const auto& [inner, h_first, outer, flipped, taken] :
       {std::tuple{"positive", true, "positive", false, true},
        {"again", true, "positive", false, true},
        {"other", false, "positive", false, true},
        {"positive", true, "other", true, true},
        {"positive", true, "positive", true, false},
        {"positive", false, "positive", false, false},
        {"other", true, "positive", false, false}}) {
    const absl::Status status = Import(WhereOf(choosing(inner, h_first), flipped, outer)).status();
    EXPECT_EQ(status.ok(), taken) << inner << h_first << outer << flipped << status;
  }
}

TEST(LeftOutFrozen, WeightsTakeNoGradient) {
  const auto branch = [](GraphProto* g) {
    AddNode(g, "Log", {"x"}, "log");
    AddNode(g, "Mul", {"log", "w"}, "left");
  };
  const auto file = onnx::OnnxFile::Parse(WhereOf(branch).SerializeAsString(), "small.onnx");
  ASSERT_TRUE(file.ok()) << file.status();
  ModelConfig config;
  config.add_frozen("w");
  const auto imported =
      onnx::Importer(*file, {.batch = 4, .shape = testing::kSmallShape, .config = config}).Run();
  EXPECT_TRUE(imported.ok()) << imported.status();
}

}  // namespace
}  // namespace psgd
