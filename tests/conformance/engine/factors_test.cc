// Compares factors and meprop on every backend with the reference.
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/reference/backend.h"
#include "engine/runtime/network.h"
#include "engine/runtime/plugin.h"
#include "tests/folders.h"
#include "tests/unit/engine/factors_check.h"
#include "tests/unit/engine/graph_runner.h"
#include "tests/unit/engine/network_fixture.h"

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
    const absl::Status status = LoadBackend(GetParam(), PluginDir(), {}).status();
    if (!status.ok()) GTEST_SKIP() << status;
  }
  NetworkOptions Options(bool factors) const {
    NetworkOptions options = {.backend = GetParam()};
    options.plugin_dir = PluginDir();
    if (factors) options.factors = [](const std::string&, const Shape&, int64_t) { return true; };
    return options;
  }
  // Compares three steps of a network with factors and one without.
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

class MepropConformance : public FactorsConformance {
 protected:
  // The bits of the rows that a backend's KeepLargest returns.
  static std::vector<uint64_t> Kept(const std::vector<double>& rows, int64_t columns, int64_t count,
                                    std::unique_ptr<Backend> backend) {
    Graph graph;
    const Shape shape = {static_cast<int64_t>(rows.size()) / columns, columns};
    const TensorId x = graph.AddTensor({.name = "x", .shape = shape, .external = true});
    const TensorId y = graph.AddTensor({.name = "y", .shape = shape, .external = true});
    graph.AddNode("keep", KeepLargest{count}, {x}, {y});
    testing::GraphRunner<float> runner(graph, std::move(backend));
    runner.Set(x, rows);
    runner.Run();
    std::vector<uint64_t> bits;
    for (double value : runner.Get(y)) bits.push_back(std::bit_cast<uint64_t>(value));
    return bits;
  }
};

// Results are equal to the bit, also for equal elements, zeros of both signs, and NaN.
TEST_P(MepropConformance, KeepsTheSameOfRows) {
  RandomStream random(MakeKey(1, RandomPurpose::kSynthetic), 3);
  const std::function<double()> kinds[] = {
      [&] { return 2.0f * random.NextUnit() - 1; }, [&] { return random.NextBelow(9) - 4.0; },
      // Fewer elements differ from zero than KeepLargest keeps.
      [&] { return random.NextBelow(100) == 0 ? 1.5
                   : random.NextBelow(2) == 0 ? 0.0
                                              : -0.0; },
      // Subnormals, and neighbors that differ in the last bits.
      [&] { return std::ldexp(random.NextBelow(50) - 25.0, -149); },
      [&] { return 1 + std::ldexp(random.NextBelow(4), -23); },
      [&] {
        const double special[] = {NAN, -INFINITY, 3e38, 1, -2};
        return special[random.NextBelow(5)];
      }};
  for (const int64_t columns : {2, 33, 256, 1009, 4099}) {
    std::vector<double> rows;
    for (const auto& value : kinds) {
      for (int64_t i = 0; i < columns; ++i) rows.push_back(value());
    }
    for (const int64_t count : {int64_t{1}, columns / 10 + 1, columns - 1}) {
      EXPECT_EQ(Kept(rows, columns, count, *LoadBackend(GetParam(), PluginDir(), {})),
                Kept(rows, columns, count, MakeReferenceBackend<float>({})))
          << count << " of " << columns;
    }
  }
}

TEST_P(MepropConformance, NetworksKeepTheSameElements) {
  const Problem problem = MakeProblem({1, 16, 16, 4}, 4);
  ModelConfig model = ZooModel("mlp");
  model.set_meprop(5);
  const auto network = MakeNetwork(model, problem, Options(false));
  const auto expected = MakeNetwork(model, problem, {.backend = "reference"});
  const auto factored = MakeNetwork(model, problem, Options(true));
  // On a device the second step is recorded, and the third is a replay.
  for (uint64_t step = 0; step < 3; ++step) {
    for (Network* each : {network.get(), expected.get(), factored.get()}) {
      ASSERT_TRUE(each->TrainStep(problem.input(), problem.labels, step, nullptr).ok());
    }
    EXPECT_EQ(ExpectSameGradients(*network, *expected, 1e-4f), 0);
    EXPECT_EQ(ExpectSameGradients(*factored, *expected, 1e-4f), 2);
  }
  if (network->on_device()) {
    EXPECT_TRUE(network->recorded().ok()) << network->recorded();
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, MepropConformance,
                         ::testing::Values("reference", "onednn", "cudnn"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Backends, FactorsConformance,
                         ::testing::Values("reference", "onednn", "cudnn"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace psgd
