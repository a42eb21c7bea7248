// Networks that ONNX cannot hold, and one that it holds but that cannot come back: in words of the
// model, not of the graph.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "engine/model_spec.h"
#include "engine/onnx/export.h"
#include "engine/onnx/import.h"
#include "engine/zoo/zoo.h"

namespace psgd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<std::string> Exported(const char* zoo, const InputShape& shape) {
  ModelConfig config;
  config.set_zoo(zoo);
  if (shape.source > 0) config.set_layers(1);
  PSGD_ASSIGN_OR_RETURN(const ModelGraph model, BuildModel(config, shape, 2, Mode::kEvaluate));
  const ModelSpec spec = MakeModelSpec(zoo, model.graph);
  const std::vector<float> zeros(100'000'000);
  return ExportOnnx(config, shape, spec, [&](int i) {
    const auto& dims = spec.parameters(i).shape();
    return std::span(zeros).first(static_cast<size_t>(ElementCount({dims.begin(), dims.end()})));
  });
}

constexpr InputShape kPairs = {.classes = 2, .entries = 2, .vocabulary = 12};

TEST(OnnxExport, WhatOnnxLacksIsToldOfTheModel) {
  struct Case {
    const char* zoo;
    InputShape shape;
    const char* kind;
  };
  for (const Case& test : {Case{"logistic_regression",
                                {.classes = 2, .entries = 4, .vocabulary = 9},
                                "has a linear layer of sparse vectors"},
                           Case{"logistic_regression",
                                {.classes = 3, .entries = 4, .vocabulary = 9},
                                "has a linear layer of sparse vectors"},
                           Case{"transformer",
                                {.classes = 11, .length = 8, .source = 4, .vocabulary = 11},
                                "has attention that leaves out the padding"},
                           Case{"alexnet", {3, 100, 100, 10}, "averages images of 2x2 to 6x6"}}) {
    const auto bytes = Exported(test.zoo, test.shape);
    ASSERT_TRUE(absl::IsUnimplemented(bytes.status())) << test.zoo << ": " << bytes.status();
    EXPECT_THAT(std::string(bytes.status().message()),
                AllOf(HasSubstr(std::string("the model ") + test.zoo + " " + test.kind),
                      HasSubstr("--out FILE.safetensors")));
  }
}

TEST(OnnxExport, RecommendersAreWrittenForOthers) {
  EXPECT_TRUE(Exported("ncf", kPairs).ok()) << Exported("ncf", kPairs).status();
  ModelConfig config;
  config.set_onnx("ncf.onnx");
  const auto back = ImportOnnx(config, kPairs, 2, Mode::kTrain);
  EXPECT_TRUE(absl::IsInvalidArgument(back.status()));
  EXPECT_THAT(std::string(back.status().message()),
              AllOf(HasSubstr("images or sequences"), HasSubstr("sparse vectors"),
                    HasSubstr("model.zoo: logistic_regression or ncf")));
}

}  // namespace
}  // namespace psgd
