#include "engine/ops/cost.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "engine/ops/rules.h"

namespace psgd {
namespace {

TensorId External(Graph* graph, const char* name, Shape shape, Element element = Element::kReal) {
  return graph->AddTensor(
      {.name = name, .shape = std::move(shape), .element = element, .external = true});
}

TEST(CostTest, AConvolutionCountsItsGroupsOnce) {
  Graph graph;
  const TensorId x = External(&graph, "x", {2, 6, 8, 8});
  const TensorId w = External(&graph, "w", {4, 3, 3, 3});
  const Conv2d op = {{.kernel = 3, .pad = 1}, 2};
  ASSERT_TRUE(AddConv2d(&graph, "conv", op, x, w, kNoTensor).ok());
  const OpCost cost = CostOf(graph, graph.nodes.back(), sizeof(float));
  EXPECT_EQ(cost.flops, 2.0 * (2 * 4 * 8 * 8) * (3 * 3 * 3));
  EXPECT_EQ(cost.bytes, 4.0 * (2 * 6 * 8 * 8 + 4 * 3 * 3 * 3 + 2 * 4 * 8 * 8));
  EXPECT_EQ(OpName(graph.nodes.back().op), "Conv2d");
}

TEST(CostTest, ActivationsMayHaveHalfTheBytes) {
  Graph graph;
  const TensorId x = External(&graph, "x", {5, 7});
  const TensorId w = External(&graph, "w", {3, 7});
  ASSERT_TRUE(AddDense(&graph, "dense", x, w, kNoTensor).ok());
  const OpCost cost = CostOf(graph, graph.nodes.back(), 2);
  EXPECT_EQ(cost.flops, 2.0 * 5 * 7 * 3);
  EXPECT_EQ(cost.bytes, 4.0 * (5 * 7 + 3 * 7) + 2.0 * 5 * 3);
}

TEST(CostTest, AnEmbeddingReadsOnlyItsRows) {
  Graph graph;
  const TensorId index = External(&graph, "index", {2, 3}, Element::kInt32);
  const TensorId table = External(&graph, "table", {1000, 8});
  ASSERT_TRUE(AddEmbedding(&graph, "embedding", index, table).ok());
  const OpCost cost = CostOf(graph, graph.nodes.back(), sizeof(float));
  EXPECT_EQ(cost.flops, 0);
  EXPECT_EQ(cost.bytes, 4.0 * (2 * 3 + 2 * 3 * 8 + 2 * 3 * 8));
}

TEST(CostTest, TensorsOfAKernelCountOnce) {
  Graph graph;
  const TensorId x = External(&graph, "x", {5, 7}), y = graph.AddTensor("y", {3});
  EXPECT_EQ(BytesOf(graph, std::vector{x, y}, 2), 4.0 * 5 * 7 + 2.0 * 3);
}

}  // namespace
}  // namespace psgd
