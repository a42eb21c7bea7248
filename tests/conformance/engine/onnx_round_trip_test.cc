// Networks of the zoo and of PyTorch, written as ONNX and read again, have the same results and
// weights, and train on. The largest zoo networks (unet, inception_v3, resnet18) are left out: they
// use the same code and take a minute more.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "common/files.h"
#include "engine/onnx/export.h"
#include "engine/onnx/import.h"
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

struct RoundTrip {
  const char* model;  // a name of the zoo, or a file of tests/golden/onnx
  SampleShape shape;
  bool file() const { return std::string(model).ends_with(".onnx"); }
};
void PrintTo(const RoundTrip& test, std::ostream* out) { *out << test.model; }

class OnnxRoundTripTest : public ::testing::TestWithParam<RoundTrip> {};

ModelConfig FileModel(const std::string& path) {
  ModelConfig config;
  config.set_onnx(path);
  return config;
}

ModelConfig ConfigOf(const RoundTrip& test) {
  if (test.file()) return FileModel(GoldenFile("onnx/" + std::string(test.model)));
  return test.shape.IsSequence() ? testing::SequenceModel(test.model)
                                 : testing::ZooModel(test.model);
}

Problem ProblemOf(const RoundTrip& test) {
  if (test.shape.HasOneLabel()) {
    return MakeTextProblem(test.shape.length, test.shape.vocabulary, test.shape.classes);
  }
  if (test.shape.IsPair()) return MakePairProblem(test.shape.source, test.shape.vocabulary);
  if (test.shape.IsSparse()) {
    return MakeSparseProblem(test.shape.entries, test.shape.vocabulary, test.shape.classes);
  }
  if (!test.shape.IsSequence()) return MakeProblem(test.shape, 3);
  return MakeTokenProblem(test.shape.length, test.shape.vocabulary);
}

void SetWeights(Network* network, const std::string& path) {
  const auto weights = ReadOnnxWeights(path);
  ASSERT_TRUE(weights.ok()) << weights.status();
  for (int i = 0; i < network->spec().parameters_size(); ++i) {
    const std::vector<float>& values = weights->at(network->spec().parameters(i).name());
    std::copy(values.begin(), values.end(), network->parameter(i).begin());
  }
  network->InvalidateParameters();
}

TEST_P(OnnxRoundTripTest, ComesBackAsItWas) {
  const RoundTrip& test = GetParam();
  const Problem problem = ProblemOf(test);
  NetworkOptions options = {.backend = "onednn", .plugin_dir = PluginDir()};
  const absl::Status there = Network::Create(ConfigOf(test), problem.shape, 3, options).status();
  if (absl::IsNotFound(there)) options.backend = "reference";
  const auto first = MakeNetwork(ConfigOf(test), problem, options);
  ASSERT_NE(first, nullptr);
  if (test.file()) SetWeights(first.get(), ConfigOf(test).onnx());
  for (uint64_t step = 0; step < 3; ++step) Descend(first.get(), problem, step, 0.01f);

  const auto bytes = ExportOnnx(ConfigOf(test), problem.shape, first->spec(),
                                [&](int i) { return std::span<const float>(first->parameter(i)); });
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const std::string path = ::testing::TempDir() + "psgd-" + std::to_string(getpid()) + ".onnx";
  ASSERT_TRUE(WriteFileAtomically(path, *bytes).ok());
  const auto second = MakeNetwork(FileModel(path), problem, options);
  ASSERT_NE(second, nullptr);
  SetWeights(second.get(), path);
  std::filesystem::remove(path);

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

constexpr SampleShape kWords = {.classes = 40, .length = 12, .vocabulary = 40};
constexpr SampleShape kImages = {3, 16, 16, 10};
constexpr SampleShape kPair = {.classes = 11, .length = 11, .source = 5, .vocabulary = 11};
constexpr SampleShape kText = {.classes = 4, .length = 6, .source = 6, .vocabulary = 11};
constexpr SampleShape Sparse(int entries, int classes) {
  return {.classes = classes, .entries = entries, .vocabulary = 12};
}
constexpr SampleShape kSentence = {.classes = 11, .length = 7, .vocabulary = 11};

INSTANTIATE_TEST_SUITE_P(
    All, OnnxRoundTripTest,
    ::testing::Values(
        RoundTrip{"mlp", {1, 8, 8, 10}}, RoundTrip{"lenet5", {1, 28, 28, 10}},
        RoundTrip{"cnn", {1, 28, 28, 10}}, RoundTrip{"googlenet", {3, 32, 32, 10}},
        RoundTrip{"squeezenet", {3, 32, 32, 10}}, RoundTrip{"resnet20", {3, 32, 32, 10}},
        RoundTrip{"gpt", kSentence}, RoundTrip{"lstm_lm", kSentence},
        RoundTrip{"transformer", kPair}, RoundTrip{"bag_of_tokens", kText},
        RoundTrip{"transformer_encoder", kText}, RoundTrip{"logistic_regression", Sparse(4, 2)},
        RoundTrip{"logistic_regression", Sparse(5, 3)}, RoundTrip{"ncf", Sparse(2, 2)},
        RoundTrip{"resnet.onnx", kImages}, RoundTrip{"unet.onnx", kImages},
        RoundTrip{"gpt.onnx", kWords}, RoundTrip{"gpt_folded.onnx", kWords},
        RoundTrip{"encoder.onnx", kWords}, RoundTrip{"lstm.onnx", kWords},
        RoundTrip{"gru.onnx", kWords}, RoundTrip{"gpt_fixed_batch.onnx", kWords},
        RoundTrip{"both_ways.onnx", kWords}, RoundTrip{"rows.onnx", kImages},
        RoundTrip{"pools.onnx", kImages}, RoundTrip{"activations.onnx", kImages},
        RoundTrip{"norms.onnx", kImages}, RoundTrip{"moves.onnx", kImages},
        RoundTrip{"sounds.onnx", kImages}, RoundTrip{"choices.onnx", kImages},
        RoundTrip{"spread.onnx", kImages}, RoundTrip{"cosine.onnx", kImages},
        RoundTrip{"numbers.onnx", kImages}, RoundTrip{"lm_encoder_tutorial.onnx", kWords},
        RoundTrip{"lm_gpt2_new_gelu.onnx", kWords}, RoundTrip{"lm_rotary.onnx", kWords},
        RoundTrip{"lm_padded.onnx", kWords}, RoundTrip{"lm_padded_own.onnx", kWords}),
    [](const auto& info) {
      std::string name = info.param.model;
      std::replace(name.begin(), name.end(), '.', '_');
      return name + (info.param.shape.classes == 3 ? "_3" : "");
    });

}  // namespace
}  // namespace psgd
