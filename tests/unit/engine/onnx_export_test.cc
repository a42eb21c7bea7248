// Errors for networks that ONNX cannot express, which name the model and not a node. Also checks of
// the importer on fused groups of nodes that an export wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "engine/graph/model_spec.h"
#include "engine/onnx/export.h"
#include "engine/onnx/importer.h"
#include "engine/zoo/zoo.h"
#include "proto/onnx.pb.h"

namespace psgd {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr SampleShape kPairs = {.classes = 2, .entries = 2, .vocabulary = 12};

absl::StatusOr<std::string> Exported(const char* zoo, const SampleShape& shape) {
  ModelConfig config;
  config.set_zoo(zoo);
  if (shape.source > 0) config.set_layers(1);
  PSGD_ASSIGN_OR_RETURN(const ModelGraph model, BuildModel(config, shape, 2, Mode::kEvaluate));
  ModelSpec spec = MakeModelSpec(zoo, model.graph);
  spec.mutable_preparation()->mutable_shape()->set_width(1);  // as a run's
  const std::vector<float> zeros(100'000'000);
  return ExportOnnx(config, shape, spec, [&](int i) {
    const auto& dims = spec.parameters(i).shape();
    return std::span(zeros).first(static_cast<size_t>(ElementCount({dims.begin(), dims.end()})));
  });
}

TEST(OnnxExport, WhatOnnxLacksIsToldOfTheModel) {
  const auto bytes = Exported("alexnet", {3, 100, 100, 10});
  ASSERT_TRUE(absl::IsUnimplemented(bytes.status())) << bytes.status();
  EXPECT_THAT(std::string(bytes.status().message()),
              AllOf(HasSubstr("the model alexnet averages images of 2x2 to 6x6"),
                    HasSubstr("--out FILE.safetensors")));
}

std::vector<std::string> InputsOf(const char* zoo, const SampleShape& shape) {
  const auto bytes = Exported(zoo, shape);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  onnx::ModelProto file;
  EXPECT_TRUE(bytes.ok() && file.ParseFromString(*bytes));
  std::vector<std::string> names;
  for (const onnx::ValueInfoProto& input : file.graph().input()) names.push_back(input.name());
  return names;
}

// Changes the file's nodes, reads it for samples of `shape`, and returns the error.
std::string ErrorOf(const std::string& bytes, const SampleShape& shape,
                    const std::function<void(onnx::NodeProto*)>& change) {
  onnx::ModelProto file;
  EXPECT_TRUE(file.ParseFromString(bytes));
  for (onnx::NodeProto& node : *file.mutable_graph()->mutable_node()) change(&node);
  const auto read = onnx::OnnxFile::Parse(file.SerializeAsString(), "changed.onnx");
  if (!read.ok()) return std::string(read.status().message());
  return std::string(onnx::Importer(*read, {.batch = 2, .shape = shape}).Run().status().message());
}

// A mask that broadcasts over other axes than samples and keys would mask other places.
TEST(OnnxExport, OnlyPaddingOfKeysIsLeftOut) {
  constexpr SampleShape kTranslation = {.classes = 11, .length = 9, .source = 4, .vocabulary = 11};
  const auto bytes = Exported("transformer", kTranslation);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto spread = [&](std::vector<int64_t> shape) {
    return ErrorOf(*bytes, kTranslation, [&](onnx::NodeProto* node) {
      if (node->output(0).ends_with("weights.shape")) {
        node->mutable_attribute(0)->mutable_t()->set_raw_data(shape.data(), 8 * shape.size());
      }
    });
  };
  EXPECT_EQ(spread({-1, 1, 1, 4}), "");
  EXPECT_THAT(spread({1, 1, -1, 4}), HasSubstr("other padding than that of a key for each token"));
  EXPECT_THAT(spread({-1, 1, 4, 1}), HasSubstr("other padding than that of a key for each token"));
}

TEST(OnnxExport, IndicesMustBeRowsOfTheTable) {
  const auto bytes = Exported("logistic_regression", kPairs);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto read = [&](const SampleShape& shape) {
    return ErrorOf(*bytes, shape, [](onnx::NodeProto*) {});
  };
  EXPECT_EQ(read(kPairs), "");
  EXPECT_THAT(
      read({.classes = 2, .entries = 2, .vocabulary = 13}),
      HasSubstr("its table has rows for the tokens 0 to 11, but those of the data go up to 12"));
  EXPECT_THAT(read({.classes = 2, .length = 2, .vocabulary = 12}),
              HasSubstr("has several inputs (indices, values)"));
  EXPECT_THAT(read({1, 28, 28, 10}), HasSubstr("has several inputs (indices, values)"));
}

TEST(OnnxExport, ValuesAreAnInputWhereTheyAreRead) {
  EXPECT_THAT(InputsOf("logistic_regression", kPairs), ElementsAre("indices", "values"));
  EXPECT_THAT(InputsOf("ncf", kPairs), ElementsAre("indices"));
}

}  // namespace
}  // namespace psgd
