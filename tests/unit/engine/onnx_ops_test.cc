// Imports of ops that become several ops of the engine, and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/engine/onnx_maker.h"

namespace psgd {
namespace {

using onnx::GraphProto;
using onnx::ModelProto;
using testing::AddInts;
using testing::AddNode;
using testing::AddWeights;
using testing::AroundNode;
using ::testing::ElementsAre;
using testing::EmptyModel;
using ::testing::HasSubstr;
using testing::SetInt;
using testing::SetInts;
using testing::SetOutput;
using testing::SetText;

struct OnnxOpCase {
  const char* name;
  std::function<void(GraphProto*)> add;  // makes "m" of "x"
  int64_t features = 32;                 // of "m"
  const char* why = "";                  // the error; empty: none
};
void PrintTo(const OnnxOpCase& test, std::ostream* out) { *out << test.name; }

class OnnxOps : public ::testing::TestWithParam<OnnxOpCase> {};

TEST_P(OnnxOps, BecomeOpsOrAreRefused) {
  const auto imported = AroundNode(GetParam().add, GetParam().features);
  if (*GetParam().why == '\0') {
    EXPECT_TRUE(imported.ok()) << imported.status();
  } else {
    EXPECT_TRUE(absl::IsInvalidArgument(imported.status()));
    EXPECT_THAT(std::string(imported.status().message()), HasSubstr(GetParam().why));
  }
}

const OnnxOpCase kOnnxOpCases[] = {
    {"Einsum",
     [](GraphProto* g) {
       AddWeights(g, "w", {5, 2});
       SetText(AddNode(g, "Einsum", {"x", "w"}, "m"), "equation", "nchw, oc -> nohw");
     },
     80},
    {"EinsumOverTheBatch",
     [](GraphProto* g) { SetText(AddNode(g, "Einsum", {"x"}, "m"), "equation", "nchw->chw"); }, 2,
     "combines the samples"},
    {"EinsumWithDots",
     [](GraphProto* g) { SetText(AddNode(g, "Einsum", {"x"}, "m"), "equation", "...w->..."); }, 2,
     "each once in an operand"},
    {"EinsumOfTwoSizes",
     [](GraphProto* g) {
       AddWeights(g, "w", {5, 3});
       SetText(AddNode(g, "Einsum", {"x", "w"}, "m"), "equation", "nchw,oc->nohw");
     },
     5, "two sizes for c"},
    {"WhereBothAreOneNumber",
     [](GraphProto* g) {
       AddWeights(g, "one", {}, 1);
       AddNode(g, "Greater", {"x", "one"}, "large");
       AddNode(g, "Where", {"large", "one", "one"}, "made");
       AddNode(g, "Add", {"x", "made"}, "m");
     }},
    {"PaddedSoftmaxOfANumber",
     [](GraphProto* g) {
       AddWeights(g, "number", {});
       AddNode(g, "PaddedSoftmax", {"x", "number", "number"}, "m");
     },
     32, "other padding than that of a key"},
    {"CastLike",
     [](GraphProto* g) {
       AddInts(g, "two", {2});
       AddNode(g, "CastLike", {"two", "x"}, "real");
       AddNode(g, "Mul", {"x", "real"}, "doubled");
       AddNode(g, "CastLike", {"doubled", "real"}, "m");
     }},
    {"CastLikeWholeNumbers",
     [](GraphProto* g) {
       AddInts(g, "two", {2});
       AddNode(g, "CastLike", {"x", "two"}, "m");
     },
     32, "casts to whole numbers"},
    {"CeluOfANegativeAlpha",
     [](GraphProto* g) {
       onnx::AttributeProto* alpha = AddNode(g, "Celu", {"x"}, "m")->add_attribute();
       alpha->set_name("alpha");
       alpha->set_f(-2);
     },
     32, "an alpha of -2, not above 0"},
    {"ReduceProdOfTheInput", [](GraphProto* g) { AddNode(g, "ReduceProd", {"x"}, "m"); }, 1,
     "only supported where its values do not depend on the input"},
    {"GatherAnyIndices",
     [](GraphProto* g) {
       AddInts(g, "index", {1, -2, 1});
       SetInt(AddNode(g, "Gather", {"x", "index"}, "m"), "axis", 1);
     },
     48},
    {"GatherBeyondTheEnd",
     [](GraphProto* g) {
       AddInts(g, "index", {0, 2});
       SetInt(AddNode(g, "Gather", {"x", "index"}, "m"), "axis", 1);
     },
     2, "beyond 2 elements"},
    {"GatherOfTheBatch",
     [](GraphProto* g) {
       AddInts(g, "index", {0});
       SetInt(AddNode(g, "Gather", {"x", "index"}, "m"), "axis", 0);
     },
     2, "cuts the batch"},
    {"TileOfChannels",
     [](GraphProto* g) {
       AddInts(g, "repeats", {1, 3, 1, 2});
       AddNode(g, "Tile", {"x", "repeats"}, "m");
     },
     192},
    {"PadByReflection",
     [](GraphProto* g) {
       AddInts(g, "pads", {0, 0, 3, 1, 0, 0, 0, 2});
       SetText(AddNode(g, "Pad", {"x", "pads"}, "m"), "mode", "reflect");
     },
     98},
    {"PadByTooMuchReflection",
     [](GraphProto* g) {
       AddInts(g, "pads", {0, 0, 4, 0, 0, 0, 0, 0});
       SetText(AddNode(g, "Pad", {"x", "pads"}, "m"), "mode", "reflect");
     },
     2, "reflects more elements than there are"},
    {"ResizeToUnknownMode",
     [](GraphProto* g) {
       AddInts(g, "sizes", {2, 2, 8, 8});
       SetText(AddNode(g, "Resize", {"x", "", "", "sizes"}, "m"), "mode", "lanczos");
     },
     2, "mode lanczos"},
    {"ReduceOverTheBatch",
     [](GraphProto* g) { SetInts(AddNode(g, "ReduceMax", {"x"}, "m"), "axes", {0}); }, 2,
     "combines the samples"},
    {"ReduceMaxOverChannels",
     [](GraphProto* g) { SetInts(AddNode(g, "ReduceMax", {"x"}, "m"), "axes", {1}); }, 16},
    {"ClipByUnknownBounds",
     [](GraphProto* g) {
       AddNode(g, "Clip", {"x", "x"}, "m");
     },
     2, "not known numbers"},
    {"ClipToNothing",
     [](GraphProto* g) {
       AddWeights(g, "low", {}, 2);
       AddWeights(g, "high", {}, 1);
       AddNode(g, "Clip", {"x", "low", "high"}, "m");
     },
     2, "cannot clip"},
    {"GroupsThatDoNotFit",
     [](GraphProto* g) {
       AddWeights(g, "gamma", {2});
       AddWeights(g, "beta", {2});
       SetInt(AddNode(g, "GroupNormalization", {"x", "gamma", "beta"}, "m"), "num_groups", 3);
     },
     2, "3 groups of 2 channels"},
    {"SamplesMinusEachOther",
     [](GraphProto* g) {
       AddInts(g, "first", {0});
       AddInts(g, "second", {1});
       AddNode(g, "Unsqueeze", {"x", "first"}, "rows");
       AddNode(g, "Unsqueeze", {"x", "second"}, "columns");
       AddNode(g, "Sub", {"rows", "columns"}, "apart");
       SetInts(AddNode(g, "ReduceMax", {"apart"}, "m"), "axes", {0});
     },
     32, "combines the samples"},
    {"EinsumOfSamplesWithEachOther",
     [](GraphProto* g) {
       SetText(AddNode(g, "Einsum", {"x", "x"}, "m"), "equation", "nchw,mchw->nm");
     },
     4, "combines the samples"},
    {"ProductOfSamplesWithEachOther",
     [](GraphProto* g) {
       AddNode(g, "Flatten", {"x"}, "plane");
       AddNode(g, "Transpose", {"plane"}, "turned");
       AddNode(g, "MatMul", {"turned", "plane"}, "gram");
       AddNode(g, "MatMul", {"plane", "gram"}, "m");
     },
     32, "combines the samples"},
    {"SoftmaxOverTheBatch",
     [](GraphProto* g) {
       AddNode(g, "Flatten", {"x"}, "plane");
       AddNode(g, "Transpose", {"plane"}, "turned");
       SetInt(AddNode(g, "Softmax", {"turned"}, "soft"), "axis", -1);
       AddNode(g, "Transpose", {"soft"}, "m");
     },
     32, "combines the samples"},
    {"WhereOfSamplesOfEachOther",
     [](GraphProto* g) {
       AddInts(g, "first", {0});
       AddInts(g, "second", {1});
       AddWeights(g, "limit", {}, 0.5f);
       AddNode(g, "Unsqueeze", {"x", "first"}, "rows");
       AddNode(g, "Unsqueeze", {"x", "second"}, "columns");
       AddNode(g, "Greater", {"rows", "limit"}, "large");
       AddNode(g, "Where", {"large", "rows", "columns"}, "apart");
       SetInts(AddNode(g, "ReduceMax", {"apart"}, "m"), "axes", {0});
     },
     32, "combines the samples"},
    {"WhereOfOtherShape",
     [](GraphProto* g) {
       AddWeights(g, "limit", {}, 0.5f);
       AddWeights(g, "row", {3});
       AddNode(g, "Greater", {"x", "limit"}, "large");
       AddNode(g, "Where", {"large", "row", "x"}, "m");
     },
     32, "do not broadcast"},
    {"WhereOfLogarithmsThatAreNotTrained",
     [](GraphProto* g) {
       AddWeights(g, "limit", {}, 0.5f);
       AddNode(g, "Greater", {"x", "limit"}, "large");
       AddNode(g, "Log", {"x"}, "log");
       AddNode(g, "Where", {"large", "log", "x"}, "m");
     }},
    {"WhereOfValues", [](GraphProto* g) {
       AddWeights(g, "limit", {}, 0.5f);
       AddNode(g, "GreaterOrEqual", {"x", "limit"}, "large");
       AddNode(g, "Neg", {"x"}, "less");
       AddNode(g, "Where", {"large", "x", "less"}, "m");
     }}};

INSTANTIATE_TEST_SUITE_P(All, OnnxOps, ::testing::ValuesIn(kOnnxOpCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(OnnxCheck, GoesOnWhereTheFileSaysAShape) {
  ModelProto model = EmptyModel({0, 2, 4, 4});
  GraphProto* graph = model.mutable_graph();
  AddNode(graph, "Det", {"x"}, "odd");
  AddInts(graph, "index", {7});
  SetInt(AddNode(graph, "Gather", {"odd", "index"}, "y"), "axis", 1);
  SetOutput(graph, "y");
  const auto reasons = [&] {
    const onnx::OnnxFile file = *onnx::OnnxFile::Parse(model.SerializeAsString(), "small.onnx");
    std::vector<std::string> whys;
    onnx::Importer importer(file, {.batch = 2, .shape = {2, 4, 4, 1}});
    const std::vector<onnx::Problem> problems = *importer.FindProblems();
    for (const onnx::Problem& problem : problems) whys.push_back(problem.why);
    return whys;
  };
  EXPECT_THAT(reasons(), ElementsAre("is not supported"));
  onnx::ValueInfoProto* info = graph->add_value_info();
  *info = graph->input(0);
  info->set_name("odd");
  EXPECT_THAT(reasons(), ElementsAre("is not supported", HasSubstr("beyond 2 elements")));
}

}  // namespace
}  // namespace psgd
