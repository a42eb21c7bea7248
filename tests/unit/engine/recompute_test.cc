#include "engine/graph/recompute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <variant>

#include "engine/graph/differentiate.h"
#include "engine/graph/recompute_cuts.h"
#include "engine/ops/rules.h"
#include "engine/runtime/memory_report.h"
#include "engine/zoo/zoo.h"
#include "tests/unit/engine/network_fixture.h"

namespace psgd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ZooModel;

struct Chain {
  Graph graph;
  size_t forward_nodes = 0;
};

// A chain of squares of a parameter, with lengths[i] elements each. A slice makes them shorter.
Chain MakeChain(const std::vector<int64_t>& lengths) {
  Chain chain;
  Graph& graph = chain.graph;
  TensorId x = graph.AddTensor(
      {.name = "x", .shape = {1, lengths[0]}, .wants_gradient = true, .external = true});
  graph.parameters.push_back({.value = x});
  for (int64_t length : lengths) {
    if (length < graph.shape(x)[1]) x = *AddSlice(&graph, "slice", {1, 0}, length, x);
    x = *AddMul(&graph, "square", x, x);
  }
  const TensorId label = graph.AddTensor(
      {.name = "label", .shape = {1}, .element = Element::kInt32, .external = true});
  (void)*AddElementLoss(&graph, "loss", {}, x, label);
  chain.forward_nodes = graph.nodes.size();
  EXPECT_TRUE(Differentiate(&graph).ok());
  return chain;
}

TEST(CutPlacesTest, AChainIsCutIntoItsRoot) {
  const Chain chain = MakeChain(std::vector<int64_t>(16, 8));
  const CutPlaces places(chain.graph, chain.forward_nodes);
  EXPECT_EQ(places.most_segments(), 17);  // each square, and the loss
  const size_t segments = places.Choose(0).size() + 1;
  EXPECT_GE(segments, 4u);
  EXPECT_LE(segments, 7u);  // about the root of 2 x 16, as segments get shorter to the end
  EXPECT_EQ(places.Choose(3).size(), 2u);
}

TEST(CutPlacesTest, CutsWhereFewBytesCross) {
  // Nodes: squares 0 and 1 of 64, a slice (2) and squares 3 to 5 of 2 elements, ...
  const Chain chain = MakeChain({64, 64, 2, 2, 2});
  const CutPlaces places(chain.graph, chain.forward_nodes);
  EXPECT_THAT(places.Choose(2), ElementsAre(2));
}

// The forward pass stays. Recomputed values are written once, before their use.
TEST(RecomputeTest, ComputesDroppedValuesAgainInOrder) {
  Chain chain = MakeChain(std::vector<int64_t>(16, 8));
  const std::vector<Node> before = chain.graph.nodes;
  const std::vector<Parameter> parameters = chain.graph.parameters;
  ASSERT_TRUE(Recompute(4, chain.forward_nodes, &chain.graph).ok());
  const Graph& graph = chain.graph;
  EXPECT_GT(graph.nodes.size(), before.size() + 6);
  EXPECT_LT(graph.nodes.size(), before.size() + 16);
  for (size_t i = 0; i < chain.forward_nodes; ++i) {
    EXPECT_EQ(graph.nodes[i].inputs, before[i].inputs);
    EXPECT_EQ(graph.nodes[i].outputs, before[i].outputs);
  }
  std::set<TensorId> written;
  for (const Node& node : graph.nodes) {
    for (TensorId input : node.inputs) {
      EXPECT_TRUE(written.contains(input) || graph.tensors[input].external) << node.name;
    }
    for (TensorId output : node.outputs) {
      EXPECT_TRUE(written.insert(output).second) << node.name;
    }
  }
  EXPECT_TRUE(written.contains(parameters[0].gradient));
}

TEST(RecomputeTest, UpdatesRunningStatisticsOnce) {
  ModelConfig config = ZooModel("resnet20");
  config.set_recompute(kRecomputeAuto);
  const auto model = BuildTrainingGraph(config, {3, 16, 16, 10}, 4);
  ASSERT_TRUE(model.ok()) << model.status();
  std::map<TensorId, int> writers;
  int again = 0;
  for (const Node& node : model->graph.nodes) {
    again += node.name.find("(again)") != std::string::npos;
    for (TensorId output : node.outputs) ++writers[output];
  }
  EXPECT_GT(again, 20);
  for (const Parameter& parameter : model->graph.parameters) {
    EXPECT_EQ(writers[parameter.gradient], 1);
  }
}

TEST(RecomputeTest, DeepNetworksTakeAFractionOfTheMemory) {
  const auto step = [](ModelConfig model, const SampleShape& shape, int segments) {
    model.set_recompute(segments);
    const auto report = PlanMemory(model, shape, 8, testing::kReference);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? report->step : 0;
  };
  const SampleShape image = {3, 32, 32, 10};
  const SampleShape text = {.classes = 64, .length = 64, .vocabulary = 64};
  ModelConfig gpt = testing::SequenceModel("gpt");
  gpt.set_layers(12);
  gpt.set_width(64);
  EXPECT_LT(4 * step(ZooModel("resnet56"), image, kRecomputeAuto),
            step(ZooModel("resnet56"), image, 0));
  EXPECT_LT(6 * step(ZooModel("resnet110"), image, kRecomputeAuto),
            step(ZooModel("resnet110"), image, 0));
  EXPECT_LT(4 * step(gpt, text, kRecomputeAuto), step(gpt, text, 0));
  // Lengths are read by all layers.
  ModelConfig encoder = testing::SequenceModel("transformer_encoder");
  encoder.set_layers(12);
  const SampleShape texts = testing::MakeTextProblem(64).shape;
  EXPECT_LT(4 * step(encoder, texts, kRecomputeAuto), step(encoder, texts, 0));
  ModelConfig transformer = testing::SequenceModel("transformer");
  transformer.set_layers(12);
  const SampleShape pairs = testing::MakePairProblem(32).shape;
  EXPECT_LT(4 * step(transformer, pairs, kRecomputeAuto), step(transformer, pairs, 0));
  // Few segments also save some memory.
  EXPECT_LT(step(gpt, text, 2), step(gpt, text, 0));
  EXPECT_LT(step(gpt, text, kRecomputeAuto), step(gpt, text, 2));
}

// A cut before the sum would keep as many bytes.
TEST(RecomputeTest, CutsGptBehindTheSumOfAProductAndItsResidual) {
  ModelConfig gpt = testing::SequenceModel("gpt");
  gpt.set_layers(4);
  gpt.set_recompute(kRecomputeAuto);
  const auto model = BuildTrainingGraph(gpt, {.classes = 17, .length = 13, .vocabulary = 17}, 5);
  ASSERT_TRUE(model.ok()) << model.status();
  std::map<TensorId, int> readers;
  for (const Node& node : model->graph.nodes) {
    for (const TensorId input : node.inputs) ++readers[input];
  }
  for (const Node& node : model->graph.nodes) {
    if (!std::holds_alternative<Dense>(node.op)) continue;
    EXPECT_EQ(readers[node.outputs[0]], 1) << node.name;
  }
}

TEST(RecomputeTest, SaysWhatCannotBeCut) {
  ModelConfig model = ZooModel("lenet5");
  const SampleShape shape = {1, 28, 28, 10};
  model.set_recompute(1);
  EXPECT_THAT(std::string(PlanMemory(model, shape, 2, testing::kReference).status().message()),
              HasSubstr("one segment is the whole network"));
  model.set_recompute(1000);
  EXPECT_THAT(std::string(PlanMemory(model, shape, 2, testing::kReference).status().message()),
              HasSubstr("can be cut into at most"));
}

}  // namespace
}  // namespace psgd
