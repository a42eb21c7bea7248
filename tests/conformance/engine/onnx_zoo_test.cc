// Networks of the zoo, written as ONNX and read again: the same answers, the same weights, and they
// train on.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "common/files.h"
#include "engine/onnx/export.h"
#include "engine/onnx/import.h"
#include "tests/unit/engine/network_fixture.h"
#include "tests/unit/engine/plugin_dir.h"

namespace psgd {
namespace {

using testing::Descend;
using testing::MakeNetwork;
using testing::MakeProblem;
using testing::MakeTokenProblem;
using testing::Problem;

struct RoundTrip {
  const char* model;
  InputShape shape;
};
void PrintTo(const RoundTrip& test, std::ostream* out) { *out << test.model; }

class OnnxZooTest : public ::testing::TestWithParam<RoundTrip> {};

ModelConfig ConfigOf(const RoundTrip& test) {
  return test.shape.IsSequence() ? testing::SequenceModel(test.model) : testing::ZooModel(test.model);
}

Problem ProblemOf(const RoundTrip& test) {
  if (test.shape.IsSequence()) return MakeTokenProblem();
  Problem problem = MakeProblem(test.shape, 3);
  if (std::string(test.model) != "unet") return problem;
  problem.labels.assign(static_cast<size_t>(3) * test.shape.height * test.shape.width, 1);
  return problem;
}

std::unique_ptr<Network> Imported(const std::string& path, const Problem& problem,
                                  const NetworkOptions& options) {
  ModelConfig config;
  config.set_onnx(path);
  auto network = Network::Create(config, problem.shape, problem.batch, options);
  EXPECT_TRUE(network.ok()) << network.status();
  const auto weights = ReadOnnxWeights(path);
  EXPECT_TRUE(weights.ok()) << weights.status();
  if (!network.ok() || !weights.ok()) return nullptr;
  for (int i = 0; i < (*network)->spec().parameters_size(); ++i) {
    const std::vector<float>& values = weights->at((*network)->spec().parameters(i).name());
    std::copy(values.begin(), values.end(), (*network)->parameter(i).begin());
  }
  (*network)->InvalidateParameters();
  return *std::move(network);
}

TEST_P(OnnxZooTest, ComesBackAsItWas) {
  const RoundTrip& test = GetParam();
  const Problem problem = ProblemOf(test);
  NetworkOptions options = {.backend = "onednn", .plugin_dir = testing::PluginDir()};
  const absl::Status there = Network::Create(ConfigOf(test), problem.shape, 3, options).status();
  if (absl::IsNotFound(there) || absl::IsFailedPrecondition(there)) options.backend = "reference";
  const auto first = MakeNetwork(ConfigOf(test), problem, options);
  ASSERT_NE(first, nullptr);
  for (uint64_t step = 0; step < 3; ++step) Descend(first.get(), problem, step, 0.01f);

  const auto bytes = ExportOnnx(ConfigOf(test), problem.shape, first->spec(), [&](int i) {
    return std::span<const float>(first->parameter(i));
  });
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const std::string path = ::testing::TempDir() + "psgd-" + std::to_string(getpid()) + "-" + test.model + ".onnx";
  ASSERT_TRUE(WriteFileAtomically(path, *bytes).ok());
  const auto second = Imported(path, problem, options);
  if (const char* keep = std::getenv("PSGD_KEEP_ONNX")) {
    std::filesystem::copy_file(path, std::string(keep) + "/" + test.model + ".onnx");
  }
  std::filesystem::remove(path);
  ASSERT_NE(second, nullptr);

  const auto before = first->Evaluate(problem.input(), problem.labels);
  const auto after = second->Evaluate(problem.input(), problem.labels);
  ASSERT_TRUE(before.ok() && after.ok()) << before.status() << after.status();
  EXPECT_NEAR(after->loss_sum, before->loss_sum, 1e-5 * std::max(1.0, before->loss_sum));
  EXPECT_EQ(after->correct, before->correct);
  for (uint64_t step = 3; step < 6; ++step) {
    const double loss = Descend(first.get(), problem, step, 0.01f);
    EXPECT_NEAR(Descend(second.get(), problem, step, 0.01f), loss, 1e-3 * std::max(1.0, loss));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, OnnxZooTest,
    ::testing::Values(RoundTrip{"mlp", {1, 8, 8, 10}}, RoundTrip{"lenet5", {1, 28, 28, 10}},
                      RoundTrip{"cnn", {1, 28, 28, 10}}, RoundTrip{"googlenet", {3, 32, 32, 10}},
                      RoundTrip{"squeezenet", {3, 32, 32, 10}},
                      RoundTrip{"resnet18", {3, 32, 32, 10}},
                      RoundTrip{"resnet20", {3, 32, 32, 10}},
                      RoundTrip{"inception_v3", {3, 75, 75, 10}},
                      RoundTrip{"unet", {1, 16, 16, 2}},
                      RoundTrip{"gpt", {.classes = 11, .length = 7, .vocabulary = 11}},
                      RoundTrip{"lstm_lm", {.classes = 11, .length = 7, .vocabulary = 11}}),
    [](const auto& info) { return std::string(info.param.model); });

}  // namespace
}  // namespace psgd
