// Networks that PyTorch exported have PyTorch's first ten training losses, on every backend.
// tests/golden/make_onnx.py made the files and the losses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/conformance/engine/onnx_torch.h"
#include "tests/folders.h"

namespace psgd {
namespace {

using testing::Descend;
using testing::Problem;

// Bounds of every loss, and of the fall of the losses.
constexpr double kBound = 1e-3, kBoundOfFall = 0.05;
constexpr float kRate = 0.05f;

struct TorchCase {
  const char* name;
  bool tokens;
  int size = 16;  // of images
  ModelConfig::Loss loss = ModelConfig::CROSS_ENTROPY;
  const char* frozen = "";  // a buffer of PyTorch
};
void PrintTo(const TorchCase& test, std::ostream* out) { *out << test.name; }

absl::StatusOr<std::unique_ptr<Network>> FromFile(const ModelConfig& config, const Problem& problem,
                                                  const std::string& backend) {
  return testing::NetworkOfFile(config, problem, {.backend = backend, .plugin_dir = PluginDir()});
}

// Whether the backend was not built or has no device here.
bool Missing(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsUnavailable(status);
}

class OnnxTorchTest : public ::testing::TestWithParam<TorchCase> {
 protected:
  void Compare(const std::string& backend) {
    const TorchCase& test = GetParam();
    const std::string path = GoldenFile(absl::StrCat("onnx/", test.name, ".onnx"));
    const Problem problem =
        test.tokens ? testing::TorchTokens(3, 12, 40) : testing::TorchImages(4, test.size, 10);
    ModelConfig config;
    config.set_onnx(path);
    if (test.loss != ModelConfig::CROSS_ENTROPY) config.set_loss(test.loss);
    if (*test.frozen != '\0') config.add_frozen(test.frozen);
    const auto network = FromFile(config, problem, backend);
    if (Missing(network.status()) && backend != "reference") GTEST_SKIP() << network.status();
    ASSERT_TRUE(network.ok()) << network.status();
    const std::vector<double> wanted =
        nlohmann::json::parse(std::ifstream(GoldenFile("onnx/losses.json"))).at(test.name);
    ASSERT_EQ(wanted.size(), 10u);
    const double bound = std::min(kBound, kBoundOfFall * (wanted.front() - wanted.back()));
    for (uint64_t step = 0; step < wanted.size(); ++step) {
      EXPECT_NEAR(Descend(network->get(), problem, step, kRate), wanted[step], bound)
          << "step " << step;
    }
  }
};

TEST_P(OnnxTorchTest, FirstLossesAreTorchs_reference) { Compare("reference"); }
TEST_P(OnnxTorchTest, FirstLossesAreTorchs_onednn) { Compare("onednn"); }
TEST_P(OnnxTorchTest, FirstLossesAreTorchs_cudnn) { Compare("cudnn"); }

INSTANTIATE_TEST_SUITE_P(
    Golden, OnnxTorchTest,
    ::testing::Values(
        TorchCase{"resnet", false}, TorchCase{"unet", false}, TorchCase{"gpt", true},
        TorchCase{"gpt_folded", true}, TorchCase{"gpt_fixed_batch", true},
        TorchCase{"encoder", true}, TorchCase{"lstm", true}, TorchCase{"lstm_folded", true},
        TorchCase{"gru", true}, TorchCase{"resnet18_thin", false, 64}, TorchCase{"rows", false},
        TorchCase{"pools", false}, TorchCase{"activations", false}, TorchCase{"norms", false},
        TorchCase{"axis_norms", false}, TorchCase{"moves", false}, TorchCase{"sounds", false},
        TorchCase{"both_ways", true}, TorchCase{"choices", false}, TorchCase{"spread", false},
        TorchCase{"cosine", false}, TorchCase{"numbers", false},
        TorchCase{"lm_encoder_square", true},
        TorchCase{"lm_encoder_tutorial", true, 0, ModelConfig::CROSS_ENTROPY, "pe"},
        TorchCase{"lm_gpt2_where", true}, TorchCase{"lm_gpt2_new_gelu", true},
        TorchCase{"lm_gpt2_places_repeat", true}, TorchCase{"lm_multihead_time_first", true},
        TorchCase{"lm_lstm_zeros", true}, TorchCase{"lm_rotary", true},
        TorchCase{"lm_padded", true}, TorchCase{"lm_padded_own", true},
        TorchCase{"pools_sigmoid", false, 16, ModelConfig::SIGMOID},
        TorchCase{"pools_squared", false, 16, ModelConfig::SQUARED},
        TorchCase{"pools_smooth_l1", false, 16, ModelConfig::SMOOTH_L1}),
    [](const auto& info) { return std::string(info.param.name); });

class OnnxFrozen : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Backends, OnnxFrozen, ::testing::Values("reference", "onednn", "cudnn"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(OnnxFrozen, BiasesHaveTheirGradientsWhereTheirWeightsAreFrozen) {
  for (const char* name : {"unet", "resnet"}) {
    const Problem problem = testing::TorchImages(4, 16, 10);
    ModelConfig config;
    config.set_onnx(GoldenFile(absl::StrCat("onnx/", name, ".onnx")));
    const auto whole = FromFile(config, problem, GetParam());
    if (Missing(whole.status())) GTEST_SKIP() << whole.status();
    config.add_frozen("*.weight");
    const auto frozen = FromFile(config, problem, GetParam());
    ASSERT_TRUE(whole.ok() && frozen.ok()) << whole.status() << frozen.status();
    const auto expected = (*whole)->TrainStep(problem.input(), problem.labels, 1, nullptr);
    const auto result = (*frozen)->TrainStep(problem.input(), problem.labels, 1, nullptr);
    ASSERT_TRUE(expected.ok() && result.ok());
    EXPECT_NEAR(result->loss_sum, expected->loss_sum, 1e-5 * expected->loss_sum);
    int compared = 0;
    for (int i = 0; i < (*frozen)->spec().parameters_size(); ++i) {
      const ParameterSpec& parameter = (*frozen)->spec().parameters(i);
      EXPECT_FALSE(absl::EndsWith(parameter.name(), ".weight"));
      for (int k = 0; k < (*whole)->spec().parameters_size(); ++k) {
        if ((*whole)->spec().parameters(k).name() != parameter.name()) continue;
        ++compared;
        for (size_t e = 0; e < (*frozen)->gradient(i).size(); ++e) {
          EXPECT_NEAR((*frozen)->gradient(i)[e], (*whole)->gradient(k)[e], 1e-4)
              << name << " " << parameter.name() << " " << e;
        }
      }
    }
    EXPECT_GT(compared, 3) << name;
  }
}

}  // namespace
}  // namespace psgd
