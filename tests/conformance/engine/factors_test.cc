// Factors and meprop on every backend, as the reference has them.
#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "engine/network.h"
#include "engine/plugin.h"
#include "engine/reference/backend.h"
#include "tests/unit/engine/factors_check.h"
#include "tests/unit/engine/graph_runner.h"
#include "tests/unit/engine/network_fixture.h"
#include "tests/unit/engine/plugin_dir.h"

namespace psgd {
namespace {

using testing::ExpectSameGradients;
using testing::MakeNetwork;
using testing::MakeProblem;
using testing::MakeTokenProblem;
using testing::Problem;
using testing::SequenceModel;
using testing::ZooModel;

class FactorsConformance : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const absl::Status status = LoadBackend(GetParam(), testing::PluginDir(), {}).status();
    if (!status.ok()) GTEST_SKIP() << status;
  }
  NetworkOptions Options(bool factors) const {
    NetworkOptions options = {.backend = GetParam()};
    options.plugin_dir = testing::PluginDir();
    if (factors) options.factors = [](const std::string&, const Shape&, int64_t) { return true; };
    return options;
  }
  // Three steps of a network with factors beside one without.
  void Compare(const ModelConfig& model, const Problem& problem, int expected) {
    const auto factored = MakeNetwork(model, problem, Options(true));
    const auto plain = MakeNetwork(model, problem, Options(false));
    for (uint64_t step = 0; step < 3; ++step) {
      ASSERT_TRUE(factored->TrainStep(problem.input(), problem.labels, step, nullptr).ok());
      ASSERT_TRUE(plain->TrainStep(problem.input(), problem.labels, step, nullptr).ok());
      EXPECT_EQ(ExpectSameGradients(*factored, *plain, 1e-4f), expected) << model.zoo();
    }
  }
};

TEST_P(FactorsConformance, TheirProductIsTheGradient) {
  Compare(ZooModel("mlp", 0.25f), MakeProblem({1, 16, 16, 4}, 6), 2);
  Compare(ZooModel("lenet5"), MakeProblem({1, 16, 16, 4}, 5), 2);
  Compare(SequenceModel("gpt"), MakeTokenProblem(), 12);
}

// Not on GPUs, where it is not offered.
class MepropConformance : public FactorsConformance {};

// The same elements to the bit, also among equal ones, in networks and alone.
TEST_P(MepropConformance, KeepsTheSameElements) {
  Graph graph;
  const TensorId x = graph.AddTensor({.name = "x", .shape = {7, 33}, .external = true});
  const TensorId y = graph.AddTensor({.name = "y", .shape = {7, 33}, .external = true});
  graph.AddNode("keep", KeepLargest{5}, {x}, {y});
  std::vector<double> values;
  RandomStream random(MakeKey(1, RandomPurpose::kSynthetic), 3);
  for (int i = 0; i < 7 * 33; ++i) values.push_back(random.NextBelow(9) - 4.0);
  testing::GraphRunner<float> runner(graph, *LoadBackend(GetParam(), testing::PluginDir(), {}));
  testing::GraphRunner<float> reference(graph, MakeReferenceBackend<float>({}));
  for (auto* each : {&runner, &reference}) {
    each->Set(x, values);
    each->Run();
  }
  EXPECT_EQ(runner.Get(y), reference.Get(y));

  const Problem problem = MakeProblem({1, 16, 16, 4}, 4);
  ModelConfig model = ZooModel("mlp");
  model.set_meprop(5);
  const auto network = MakeNetwork(model, problem, Options(false));
  const auto expected = MakeNetwork(model, problem, {.backend = "reference"});
  const auto factored = MakeNetwork(model, problem, Options(true));
  for (Network* each : {network.get(), expected.get(), factored.get()}) {
    ASSERT_TRUE(each->TrainStep(problem.input(), problem.labels, 0, nullptr).ok());
  }
  EXPECT_EQ(ExpectSameGradients(*network, *expected, 1e-4f), 0);
  EXPECT_EQ(ExpectSameGradients(*factored, *expected, 1e-4f), 2);
}

INSTANTIATE_TEST_SUITE_P(Backends, MepropConformance, ::testing::Values("reference", "onednn"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Backends, FactorsConformance,
                         ::testing::Values("reference", "onednn", "cudnn"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace psgd
