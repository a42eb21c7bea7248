// Every backend against the reference in double, op by op, within the bound that the case states.
// What a run is to write is filled with NaN first.
#include <algorithm>
#include <cmath>
#include <tuple>

#include <gtest/gtest.h>

#include "engine/plugin.h"
#include "engine/reference/backend.h"
#include "tests/unit/engine/graph_runner.h"
#include "tests/unit/engine/op_cases.h"
#include "tests/unit/engine/plugin_dir.h"

namespace psgd {
namespace {

using testing::GraphRunner;
using testing::OpCase;

constexpr BackendOptions kOptions = {.threads = 1, .dropout = {.seed = 3, .worker = 2}};

using Param = std::tuple<std::string, OpCase>;

class BackendTest : public ::testing::TestWithParam<Param> {
 protected:
  const OpCase& op_case() const { return std::get<1>(GetParam()); }

  template <typename T>
  std::vector<std::vector<double>> Compute(std::unique_ptr<Backend> backend, int runs = 1) {
    const OpCase& test = op_case();
    GraphRunner<T> runner(test.graph, std::move(backend));
    uint32_t stream = 0;
    for (const OpCase::Input& input : test.inputs) {
      runner.Set(input.tensor, testing::RandomValues(test.graph, input.tensor, stream++));
    }
    if (test.seed != kNoTensor) {
      runner.Set(test.seed, testing::RandomValues(test.graph, test.seed, stream));
    }
    if (test.labels != kNoTensor) {
      std::vector<double> labels(ElementCount(test.graph.shape(test.labels)));
      for (size_t i = 0; i < labels.size(); ++i) {
        labels[i] = i % 4 == 1 ? -1 : static_cast<double>(i % test.classes);
      }
      runner.Set(test.labels, labels);
    }
    for (int i = 0; i < runs; ++i) runner.Run(11);
    std::vector<std::vector<double>> results = {runner.Get(test.output)};
    for (const OpCase::Input& input : test.inputs) {
      if (input.gradient != kNoTensor) results.push_back(runner.Get(input.gradient));
    }
    return results;
  }

  absl::StatusOr<std::unique_ptr<Backend>> Load() {
    return LoadBackend(std::get<0>(GetParam()), testing::PluginDir(), kOptions);
  }
};

TEST_P(BackendTest, AgreesWithTheOracle) {
  auto backend = Load();
  if (!backend.ok()) GTEST_SKIP() << backend.status();
  const auto expected = Compute<double>(MakeReferenceBackend<double>(kOptions));
  const auto actual = Compute<float>(*std::move(backend));
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t r = 0; r < expected.size(); ++r) {
    double largest = 1e-3;
    for (double value : expected[r]) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < expected[r].size(); ++i) {
      // Written so that NaN fails.
      ASSERT_LE(std::abs(actual[r][i] - expected[r][i]), op_case().bound * largest)
          << (r == 0 ? "output" : "gradient of an input") << " " << r << ", element " << i << ": "
          << actual[r][i] << " against " << expected[r][i];
    }
  }
}

TEST_P(BackendTest, GivesTheSameBitsAgain) {
  auto first = Load();
  if (!first.ok()) GTEST_SKIP() << first.status();
  auto second = Load();
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(Compute<float>(*std::move(first)), Compute<float>(*std::move(second), 2));
}

INSTANTIATE_TEST_SUITE_P(Ops, BackendTest,
                         ::testing::Combine(::testing::Values("reference", "onednn", "cudnn"),
                                            ::testing::ValuesIn(testing::AllOpCases())),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param).name;
                         });

}  // namespace
}  // namespace psgd
