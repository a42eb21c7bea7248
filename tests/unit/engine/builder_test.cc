#include "engine/graph/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/differentiate.h"

namespace psgd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Shape ShapeOf(const ModelGraph& model, const std::string& tensor) {
  for (const Tensor& candidate : model.graph.tensors) {
    if (candidate.name == tensor) return candidate.shape;
  }
  ADD_FAILURE() << "no tensor " << tensor;
  return {};
}

TEST(BuilderTest, EveryLayerOfImagesHasItsShape) {
  NetworkBuilder net(Mode::kTrain, 2, {3, 12, 16, 5});
  TensorId x = net.image();
  x = net.Relu(net.Conv2d("conv", x, {.channels = 8, .kernel = 3, .pad = 1}));
  const TensorId half = net.AveragePool("half", x, {.kernel = 2, .stride = 2});
  const TensorId odd = net.MaxPool("odd", x, {.kernel = 3, .stride = 2, .ceil = true});
  x = net.ConvTranspose2d("up", net.Mul("gated", half, odd),
                          {.channels = 8, .kernel = 2, .stride = 2});
  const TensorId transposed = net.ConvTranspose2d(
      "transposed", half, {.channels = 6, .kernel = 4, .stride = 2, .pad = 1, .groups = 2});
  x = net.Concat("both", {x, net.Gelu(transposed)});
  x = net.Slice("some", x, {.axis = 1, .begin = 3}, 9);
  x = net.Pad("framed", x, {.before = {0, 0, 1, 1}, .value = 0.5f}, {0, 0, 2, 0});
  x = net.AdaptiveAveragePool("grid", x, {4, 3});
  absl::StatusOr<ModelGraph> model = net.Finish(net.Dense("fc", x, net.classes()));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(ShapeOf(*model, "odd"), ElementsAre(2, 8, 6, 8));
  EXPECT_THAT(ShapeOf(*model, "transposed.weight"), ElementsAre(8, 3, 4, 4));
  EXPECT_THAT(ShapeOf(*model, "transposed.bias"), ElementsAre(6));
  EXPECT_THAT(ShapeOf(*model, "both"), ElementsAre(2, 14, 12, 16));
  EXPECT_THAT(ShapeOf(*model, "framed"), ElementsAre(2, 9, 15, 17));
  EXPECT_THAT(ShapeOf(*model, "grid"), ElementsAre(2, 9, 4, 3));
  EXPECT_THAT(ShapeOf(*model, "labels"), ElementsAre(2));
  EXPECT_TRUE(Differentiate(&model->graph).ok());
}

TEST(BuilderTest, LogitsThatAreImagesTakeALabelAPixel) {
  NetworkBuilder net(Mode::kTrain, 2, {3, 5, 7, 4});
  const auto model = net.Finish(net.Conv2d("conv", net.image(), {.channels = net.classes()}));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->graph.shape(model->labels), ElementsAre(2, 5, 7));
}

TEST(BuilderTest, TheFirstLayerThatDoesNotFitIsNamed) {
  NetworkBuilder net(Mode::kTrain, 2, {3, 5, 7, 4});
  TensorId x = net.Slice("first", net.image(), {.axis = 1, .begin = 2}, 2);
  x = net.Mul("second", net.Gelu(x), net.Concat("third", {x, net.image()}));
  const absl::Status status = net.Finish(net.Dense("fc", x, 4)).status();
  EXPECT_THAT(status.ToString(),
              HasSubstr("first: 2x3x5x7 has no 2 elements from 2 on along axis 1"));
}

TEST(BuilderTest, ImagesThatGrowTooLargeAreRefused) {
  NetworkBuilder net(Mode::kTrain, 2, {3, 5, 7, 4});
  const TensorId x =
      net.Pad("wide", net.image(), {.before = {0, 0, 0, 0}}, {0, 0, 1 << 20, 1 << 20});
  const absl::Status status = net.Finish(net.Dense("fc", x, 4)).status();
  EXPECT_THAT(status.ToString(), HasSubstr("wide: "));
  EXPECT_THAT(status.ToString(), HasSubstr("too large"));
}

}  // namespace
}  // namespace psgd
