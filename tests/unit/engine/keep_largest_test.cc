#include "engine/ops/keep_largest.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/ops/keep_largest_loops.h"
#include "engine/ops/rules.h"
#include "engine/reference/backend.h"
#include "tests/unit/engine/graph_runner.h"
#include "tests/unit/engine/network_fixture.h"

namespace psgd {
namespace {

using testing::Descend;
using ::testing::HasSubstr;
using testing::MakeNetwork;
using testing::MakeProblem;
using testing::Problem;
using testing::ZooModel;

std::vector<float> Kept(const std::vector<float>& row, int64_t count) {
  std::vector<float> scratch(row.size()), y(row.size());
  KeepLargestOfRow(row.data(), static_cast<int64_t>(row.size()), count, scratch.data(), y.data());
  return y;
}

TEST(KeepLargest, KeepsTheLargestMagnitudesAndTheFirstOfEqualOnes) {
  EXPECT_EQ(Kept({1, -3, 2, 0.5f}, 2), (std::vector<float>{0, -3, 2, 0}));
  EXPECT_EQ(Kept({2, -2, 2, 2, 3}, 3), (std::vector<float>{2, -2, 0, 0, 3}));
  EXPECT_EQ(Kept({0, 0, 0}, 2), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(Kept({1, -INFINITY, 2}, 1), (std::vector<float>{0, -INFINITY, 0}));
  EXPECT_TRUE(std::isnan(Kept({1, 5, NAN}, 1)[2])) << "what went wrong must be seen";
}

// A dense layer keeps one element of dy, and computes both gradients from this element.
TEST(KeepLargest, ADenseLayerPassesOnWhatItKeeps) {
  Graph graph;
  const auto external = [&](Shape shape) {
    return graph.AddTensor(
        {.name = "t", .shape = std::move(shape), .wants_gradient = true, .external = true});
  };
  const TensorId x = external({2, 2}), w = external({3, 2}), b = external({3});
  const TensorId dy = external({2, 3});
  const TensorId y = *AddDense(&graph, "fc", x, w, b);
  EXPECT_EQ(KeepLargestGradients(3, &graph), 0);
  EXPECT_EQ(KeepLargestGradients(1, &graph), 1);
  const GradientSeed seed = {y, dy};
  const auto gradients = Differentiate(&graph, {&seed, 1});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  for (TensorId t : {x, w, b}) graph.tensors[(*gradients)[t]].external = true;
  testing::GraphRunner<double> runner(graph, MakeReferenceBackend<double>({}));
  runner.Set(x, {1, 2, 3, 4});
  runner.Set(w, {1, 10, 100, 1000, 5, 7});
  runner.Set(b, {0, 0, 0});
  runner.Set(dy, {0.5, -2, 1, 3, 1, -1});  // keeps -2 of the first row, 3 of the second
  runner.Run();
  EXPECT_EQ(runner.Get((*gradients)[x]), (std::vector<double>{-200, -2000, 3, 30}));
  EXPECT_EQ(runner.Get((*gradients)[w]), (std::vector<double>{9, 12, -2, -4, 0, 0}));
  EXPECT_EQ(runner.Get((*gradients)[b]), (std::vector<double>{3, -2, 0}));
}

ModelConfig Sparsified(int keep) {
  ModelConfig model = ZooModel("mlp");
  model.add_hidden(64);
  model.set_meprop(keep);
  return model;
}

TEST(KeepLargest, TouchesFewRowsOfAWeightsGradientAndStillLearns) {
  const Problem problem = MakeProblem();
  const auto network = MakeNetwork(Sparsified(3), problem, testing::kReference);
  const double first = Descend(network.get(), problem, 0, 0.05f);
  const auto gradient = network->gradient(0);
  int touched = 0;
  for (size_t row = 0; row < 64; ++row) {
    const auto values = gradient.subspan(row * 256, 256);
    touched += std::any_of(values.begin(), values.end(), [](float v) { return v != 0; });
  }
  EXPECT_GT(touched, 0);
  EXPECT_LE(touched, 3 * problem.batch);
  double last = first;
  for (uint64_t step = 1; step < 60; ++step) last = Descend(network.get(), problem, step, 0.05f);
  EXPECT_LT(last, 0.3 * first);
}

TEST(KeepLargest, IsRefusedWhereItWouldDoNothing) {
  const Problem problem = MakeProblem();
  const auto network =
      Network::Create(Sparsified(64), problem.shape, problem.batch, testing::kReference);
  EXPECT_TRUE(absl::IsInvalidArgument(network.status())) << network.status();
  EXPECT_THAT(std::string(network.status().message()), HasSubstr("model.meprop"));
  // The last layer has 4 outputs, the others 64.
  EXPECT_TRUE(
      Network::Create(Sparsified(63), problem.shape, problem.batch, testing::kReference).ok());
}

}  // namespace
}  // namespace psgd
