// Compares every backend, in each precision with a bound, with the reference in double, op by op,
// within the bound of the case. Outputs are filled with NaN before each run.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "engine/graph/differentiate.h"
#include "engine/ops/rules.h"
#include "engine/reference/backend.h"
#include "engine/runtime/plugin.h"
#include "tests/folders.h"
#include "tests/unit/engine/graph_runner.h"
#include "tests/unit/engine/op_cases.h"

namespace psgd {
namespace {

using testing::GraphRunner;
using testing::OpCase;

constexpr BackendOptions kOptions = {.threads = 1, .dropout = {.seed = 3, .worker = 2}};

struct Twin {
  const char* name;
  const char* backend;
  Precision precision = Precision::kFp32;
};

using Param = std::tuple<Twin, OpCase>;

class BackendTest : public ::testing::TestWithParam<Param> {
 protected:
  const Twin& twin() const { return std::get<0>(GetParam()); }
  const OpCase& op_case() const { return std::get<1>(GetParam()); }
  bool coarse() const { return twin().precision != Precision::kFp32; }
  double bound() const {
    if (!coarse()) return op_case().bound;
    // tf32 and fp16 have at least two bits more than bf16.
    return twin().precision == Precision::kBf16 ? op_case().bf16_bound : op_case().bf16_bound / 4;
  }

  template <typename T>
  std::vector<std::vector<double>> Compute(std::unique_ptr<Backend> backend, int runs = 1) {
    const OpCase& test = op_case();
    GraphRunner<T> runner(test.graph, std::move(backend));
    uint32_t stream = 0;
    for (const OpCase::Input& input : test.inputs) {
      runner.Set(input.tensor, testing::RandomValues(test.graph, input.tensor, stream++, coarse()));
    }
    if (test.seed != kNoTensor) {
      runner.Set(test.seed, testing::RandomValues(test.graph, test.seed, stream, coarse()));
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
    BackendOptions options = kOptions;
    options.precision = twin().precision;
    return LoadBackend(twin().backend, PluginDir(), options);
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
      // NaN fails this comparison.
      ASSERT_LE(std::abs(actual[r][i] - expected[r][i]), bound() * largest)
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

// Queries and keys whose product is too large for fp16, before it is scaled.
TEST(AttentionInFp16, ScalesBeforeItStores_cudnn) {
  BackendOptions options = kOptions;
  options.precision = Precision::kFp16;
  auto backend = LoadBackend("cudnn", PluginDir(), options);
  if (!backend.ok()) GTEST_SKIP() << backend.status();
  constexpr int kPlaces = 3, kWidth = 64;
  Graph graph;
  const auto external = [&](const char* name) {
    return graph.AddTensor(
        {.name = name, .shape = {1, 1, kPlaces, kWidth}, .wants_gradient = true, .external = true});
  };
  const TensorId q = external("q"), k = external("k"), v = external("v");
  const TensorId y = AddAttention(&graph, "attention", {}, q, k, v, kNoTensor).value();
  const TensorId seed = external("seed");
  graph.tensors[y].external = true;
  const std::vector<GradientSeed> seeds = {{y, seed}};
  const auto gradients = Differentiate(&graph, seeds).value();
  for (const TensorId of : {q, k, v}) graph.tensors[gradients[of]].external = true;
  GraphRunner<float> runner(graph, *std::move(backend));
  std::vector<double> large(kPlaces * kWidth, 64), values, ones(kPlaces * kWidth, 1);
  for (int i = 0; i < kPlaces * kWidth; ++i) values.push_back(i / kWidth);
  runner.Set(q, large);  // q.k = 64 * 64 * 64
  runner.Set(k, large);
  runner.Set(v, values);
  runner.Set(seed, ones);
  runner.Run();
  for (const double value : runner.Get(y)) EXPECT_NEAR(value, 1, 1e-3);
  for (const TensorId of : {q, k, v}) {
    for (const double value : runner.Get(gradients[of])) EXPECT_TRUE(std::isfinite(value)) << value;
  }
}

// Masks of the least number of fp32 leave no NaN, also in a row that is masked as a whole.
TEST(MaskInHalfPrecision, StaysFinite_cudnn) {
  constexpr float kLeast = std::numeric_limits<float>::lowest();
  constexpr int kKeys = 8;
  for (const Precision precision : {Precision::kBf16, Precision::kFp16}) {
    for (const bool as_array : {false, true}) {
      BackendOptions options = kOptions;
      options.precision = precision;
      auto backend = LoadBackend("cudnn", PluginDir(), options);
      if (!backend.ok()) GTEST_SKIP() << backend.status();
      Graph graph;
      const Shape shape = {3, kKeys};
      const TensorId condition =
          graph.AddTensor({.name = "condition", .shape = shape, .external = true});
      const TensorId x = graph.AddTensor({.name = "x", .shape = shape, .external = true});
      TensorId b = kNoTensor;
      Select op;
      if (as_array) {
        const Constant mask = {std::make_shared<const std::vector<float>>(3 * kKeys, kLeast)};
        b = AddConstant(&graph, "mask", mask, shape).value();
      } else {
        op.b = kLeast;
      }
      const TensorId masked = AddSelect(&graph, "masked", op, condition, x, b).value();
      const TensorId y = AddSoftmax(&graph, "softmax", {}, masked, kNoTensor).value();
      graph.tensors[y].external = true;
      GraphRunner<float> runner(graph, *std::move(backend));
      std::vector<double> open(3 * kKeys, 1);
      std::fill(open.begin() + kKeys, open.begin() + 2 * kKeys, 0);  // the second row
      open[0] = 0;
      runner.Set(condition, open);
      runner.Set(x, std::vector<double>(3 * kKeys, 0.5));
      runner.Run();
      const std::vector<double> made = runner.Get(y);
      EXPECT_EQ(made[0], 0);
      for (int i = 1; i < 3 * kKeys; ++i) {
        EXPECT_NEAR(made[i], i < kKeys ? 1.0 / (kKeys - 1) : 1.0 / kKeys, 2e-3)
            << "array: " << as_array << ", element " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ops, BackendTest,
    ::testing::Combine(::testing::Values(Twin{"reference", "reference"}, Twin{"onednn", "onednn"},
                                         Twin{"onednn_bf16", "onednn", Precision::kBf16},
                                         Twin{"cudnn", "cudnn"},
                                         Twin{"cudnn_tf32", "cudnn", Precision::kTf32},
                                         Twin{"cudnn_bf16", "cudnn", Precision::kBf16},
                                         Twin{"cudnn_fp16", "cudnn", Precision::kFp16}),
                       ::testing::ValuesIn(testing::AllOpCases())),
    [](const auto& info) {
      return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param).name;
    });

}  // namespace
}  // namespace psgd
