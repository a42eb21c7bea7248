// Networks of the zoo train on the plugins. golden_test.cc checks the numbers of a step.
#include <cmath>
#include <tuple>

#include <gtest/gtest.h>

#include "engine/zoo/zoo.h"
#include "tests/folders.h"
#include "tests/unit/engine/network_fixture.h"

namespace psgd {
namespace {

using testing::Descend;
using testing::MakeNetwork;
using testing::MakePairProblem;
using testing::MakeProblem;
using testing::MakeSparseProblem;
using testing::MakeTextProblem;
using testing::MakeTokenProblem;
using testing::Problem;
using testing::ZooModel;

struct ZooCase {
  const char* model;
  SampleShape shape;
  int batch;
  bool pixels = false;  // pixels have labels
};

// The default would print the address of `model`.
void PrintTo(const ZooCase& test, std::ostream* out) { *out << test.model; }

// Why the backend cannot be used here; OK: it can.
absl::Status Absent(const NetworkOptions& options) {
  const absl::Status status = Network::Create(ZooModel("mlp"), {1, 1, 1, 2}, 1, options).status();
  const bool absent =
      absl::IsNotFound(status) || absl::IsFailedPrecondition(status) || absl::IsUnavailable(status);
  return absent ? status : absl::OkStatus();
}

class ZooTrainingTest : public ::testing::TestWithParam<std::tuple<std::string, ZooCase>> {
 protected:
  void SetUp() override {
    options_.backend = std::get<0>(GetParam());
    options_.plugin_dir = PluginDir();
    if (const absl::Status there = Absent(options_); !there.ok()) GTEST_SKIP() << there;
  }
  const ZooCase& zoo_case() const { return std::get<1>(GetParam()); }

  NetworkOptions options_;
};

// The problem of a case. Some pixels are not counted.
Problem ProblemFor(const ZooCase& test) {
  if (test.shape.HasOneLabel()) {
    return MakeTextProblem(test.shape.length, test.shape.vocabulary, test.shape.classes,
                           test.batch);
  }
  if (test.shape.IsPair()) {
    return MakePairProblem(test.shape.source, test.shape.vocabulary, test.batch);
  }
  Problem problem = MakeProblem(test.shape, test.batch);
  if (!test.pixels) return problem;
  problem.labels.resize(static_cast<size_t>(test.batch) * test.shape.height * test.shape.width);
  for (size_t i = 0; i < problem.labels.size(); ++i) {
    problem.labels[i] = i % 7 == 3 ? -1 : static_cast<int32_t>(i) % test.shape.classes;
  }
  return problem;
}

TEST_P(ZooTrainingTest, LossFallsInEightSteps) {
  const ZooCase& test = zoo_case();
  const Problem problem = ProblemFor(test);
  const auto network = MakeNetwork(ZooModel(test.model, 0), problem, options_);
  const double first = Descend(network.get(), problem, 0, 0.01f);
  double last = first;
  for (uint64_t step = 1; step < 8; ++step) last = Descend(network.get(), problem, step, 0.01f);
  EXPECT_LT(last, 0.9 * first);
}

// Two of the smallest samples that the network takes.
Problem SmallestProblem(const std::string& model) {
  if (model == "transformer") return MakePairProblem(5, 11, 2);
  if (model == "bag_of_tokens" || model == "transformer_encoder") return MakeTextProblem();
  if (model == "linear_regression") {
    Problem problem = MakeSparseProblem(2, 12, 1, 2);
    problem.shape.targets = 1;
    problem.targets = {0.5f, -1};
    return problem;
  }
  if (model == "gpt" || model == "lstm_lm") return MakeTokenProblem(7, 11, 2);
  if (model == "ncf" || model == "logistic_regression") return MakeSparseProblem(2, 12, 2, 2);
  if (model == "alexnet") return MakeProblem({3, 63, 63, 10}, 2);
  if (model == "inception_v3") return MakeProblem({3, 75, 75, 10}, 2);
  if (model == "unet") {
    return ProblemFor({.model = "unet", .shape = {1, 16, 16, 3}, .batch = 1, .pixels = true});
  }
  return MakeProblem({3, 32, 32, 10}, 2);
}

class WholeZooTest : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(WholeZooTest, AStepChangesTheLoss) {
  const auto& [backend, model] = GetParam();
  const NetworkOptions options = {.backend = backend, .plugin_dir = PluginDir()};
  if (const absl::Status there = Absent(options); !there.ok()) GTEST_SKIP() << there;
  const Problem problem = SmallestProblem(model);
  ModelConfig config = ZooModel(model);
  if (problem.shape.targets > 0) config.set_loss(ModelConfig::SQUARED);
  const auto network = MakeNetwork(config, problem, options);
  ASSERT_NE(network, nullptr);
  // The loss may rise: where images shrink to a pixel, a channel normalizes only two values.
  const double first = Descend(network.get(), problem, 0, 1e-4f);
  const double second = Descend(network.get(), problem, 1, 1e-4f);
  ASSERT_TRUE(std::isfinite(first) && std::isfinite(second)) << first << " " << second;
  EXPECT_NE(second, first);
}

std::string NameOf(const ::testing::TestParamInfo<std::tuple<std::string, ZooCase>>& info) {
  return std::get<0>(info.param) + "_" + std::get<1>(info.param).model;
}

const auto kPlugins = ::testing::Values("onednn", "cudnn");

INSTANTIATE_TEST_SUITE_P(
    Plugins, ZooTrainingTest,
    ::testing::Combine(
        kPlugins,
        ::testing::Values(
            ZooCase{"googlenet", {3, 48, 48, 10}, 8}, ZooCase{"squeezenet", {3, 33, 31, 10}, 20},
            ZooCase{"resnet18", {3, 32, 32, 10}, 8}, ZooCase{"resnet20", {3, 32, 32, 10}, 20},
            ZooCase{.model = "unet", .shape = {1, 16, 16, 3}, .batch = 1, .pixels = true})),
    NameOf);

INSTANTIATE_TEST_SUITE_P(Plugins, WholeZooTest,
                         ::testing::Combine(kPlugins, ::testing::ValuesIn(ZooNames())),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param);
                         });

}  // namespace
}  // namespace psgd
