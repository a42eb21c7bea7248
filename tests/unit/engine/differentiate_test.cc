#include "engine/graph/differentiate.h"

#include <gtest/gtest.h>

#include "engine/ops/rules.h"
#include "engine/reference/backend.h"
#include "tests/unit/engine/graph_runner.h"

namespace psgd {
namespace {

TensorId External(Graph* graph, Shape shape, bool wants_gradient) {
  return graph->AddTensor(
      {.name = "t", .shape = std::move(shape), .wants_gradient = wants_gradient, .external = true});
}

TEST(DifferentiateTest, SumsTheGradientsOfATensorUsedTwice) {
  Graph graph;
  const TensorId x = External(&graph, {4}, true);
  const TensorId seed = External(&graph, {4}, false);
  const TensorId doubled = *AddSum(&graph, "doubled", {x, x});
  const TensorId y = *AddSum(&graph, "y", {doubled, x, doubled});  // 5 x
  const GradientSeed start = {y, seed};
  const auto gradients = Differentiate(&graph, {&start, 1});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  graph.tensors[(*gradients)[x]].external = true;
  const TensorId dx = (*gradients)[x];
  testing::GraphRunner<double> runner(graph, MakeReferenceBackend<double>({}));
  runner.Set(x, {1, 2, 3, 4});
  runner.Set(seed, {1, 10, 100, 1000});
  runner.Run();
  EXPECT_EQ(runner.Get(dx), (std::vector<double>{5, 50, 500, 5000}));
}

TEST(DifferentiateTest, ParametersThatShareAGradientGetOneEach) {
  Graph graph;
  const TensorId a = External(&graph, {1, 3}, true), b = External(&graph, {1, 3}, true);
  graph.parameters = {{.value = a}, {.value = b}};
  const TensorId labels = graph.AddTensor(
      {.name = "labels", .shape = {1}, .element = Element::kInt32, .external = true});
  ASSERT_TRUE(
      AddSoftmaxCrossEntropy(&graph, "loss", {}, *AddSum(&graph, "sum", {a, b}), labels).ok());
  ASSERT_TRUE(Differentiate(&graph).ok());
  EXPECT_NE(graph.parameters[0].gradient, graph.parameters[1].gradient);
  testing::GraphRunner<double> runner(graph, MakeReferenceBackend<double>({}));
  runner.Set(a, {1, 2, 3});
  runner.Set(b, {3, 1, 0});
  runner.Set(labels, {2});
  runner.Run();
  EXPECT_EQ(runner.Get(graph.parameters[0].gradient), runner.Get(graph.parameters[1].gradient));
}

TEST(DifferentiateTest, NamesAParameterThatTheLossDoesNotDependOn) {
  Graph graph;
  const TensorId x = External(&graph, {1, 3}, true);
  const TensorId lost =
      graph.AddTensor({.name = "fc9.weight", .shape = {3}, .wants_gradient = true});
  graph.parameters = {{.value = x}, {.value = lost}};
  const TensorId labels =
      graph.AddTensor({.name = "labels", .shape = {1}, .element = Element::kInt32});
  ASSERT_TRUE(AddSoftmaxCrossEntropy(&graph, "loss", {}, x, labels).ok());
  const absl::Status status = Differentiate(&graph).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("fc9.weight"), std::string::npos) << status;
}

TEST(DifferentiateTest, LeavesOutWhatNobodyWants) {
  Graph graph;
  const TensorId x = External(&graph, {2, 3}, false), w = External(&graph, {4, 3}, true);
  graph.parameters = {{.value = w}};
  const TensorId labels = graph.AddTensor(
      {.name = "labels", .shape = {2}, .element = Element::kInt32, .external = true});
  const TensorId y = *AddDense(&graph, "fc", x, w, kNoTensor);
  ASSERT_TRUE(AddSoftmaxCrossEntropy(&graph, "loss", {}, y, labels).ok());
  ASSERT_TRUE(Differentiate(&graph).ok());
  for (const Node& node : graph.nodes) {
    EXPECT_FALSE(std::holds_alternative<DenseBackwardData>(node.op)) << node.name;
  }
}

}  // namespace
}  // namespace psgd
