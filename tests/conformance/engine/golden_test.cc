// Loss and gradients of whole networks against PyTorch's, computed in double; the numbers are in
// tests/golden/networks.json, and the script that made them beside it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/network.h"
#include "tests/golden/golden_dir.h"
#include "tests/unit/engine/plugin_dir.h"

namespace psgd {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kInput = 1 << 20, kLabels = 1 << 21, kProbe = 1 << 22;

// The script's unit(stream, ...)[index].
double Unit(uint64_t stream, uint64_t index) {
  uint64_t z = (stream << 40) + index + 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return static_cast<double>((z ^ (z >> 31)) >> 40) / 16777216.0;
}

// The script's fill().
void Fill(uint64_t stream, const ParameterSpec& spec, std::span<float> out) {
  const bool matrix = spec.shape_size() > 1;
  const double fan_in = static_cast<double>(out.size()) / static_cast<double>(spec.shape(0));
  const double spread = matrix ? std::sqrt(6 / fan_in) : 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const double value = 2 * Unit(stream, i) - 1;
    out[i] = static_cast<float>(matrix ? value * static_cast<float>(spread)
                                       : 0.1 * value + spec.initializer().constant().value());
  }
}

const Json& Golden() {
  static const Json golden = Json::parse(std::ifstream(testing::GoldenFile("networks.json")));
  return golden;
}

struct GoldenCase {
  const char* model;
  const char* backend;
  // Of a gradient, relative to its length. Wide where few values are normalised, which multiplies
  // roundings, or where a rounding turns a relu in a small image; the loss is close in all of them.
  double bound = 1e-4;
  double loss_bound = 1e-5;
  // Of the half of all gradients that are closest: what one rounding turned is in few of them, and a
  // fault in a formula in most.
  double bound_of_half = 1e-4;
};

void PrintTo(const GoldenCase& test, std::ostream* out) { *out << test.model; }

class GoldenTest : public ::testing::TestWithParam<GoldenCase> {
 protected:
  static ModelConfig Model(const std::string& name) {
    ModelConfig config;
    config.set_zoo(name);
    if (name == "gpt" || name == "lstm_lm" || name == "transformer") config.set_width(16);
    if (name == "gpt") config.set_heads(2);
    return config;
  }
  static InputShape Shape(const Json& golden) {
    InputShape shape;
    shape.classes = golden["classes"];
    shape.length = golden["length"];
    shape.source = golden["source"];
    shape.vocabulary = shape.length > 0 ? shape.classes : 0;
    if (shape.length == 0) {
      shape.channels = golden["image"][0];
      shape.height = golden["image"][1];
      shape.width = golden["image"][2];
    }
    return shape;
  }
};

TEST_P(GoldenTest, IsPyTorchs) {
  const auto& [model, backend, bound, loss_bound, bound_of_half] = GetParam();
  const Json& golden = Golden()[model];
  const InputShape shape = Shape(golden);
  const int batch = golden["batch"];
  auto made = Network::Create(Model(model), shape, batch,
                              {.backend = backend, .plugin_dir = testing::PluginDir()});
  if (absl::IsNotFound(made.status()) || absl::IsFailedPrecondition(made.status()) ||
      absl::IsUnavailable(made.status())) {
    GTEST_SKIP() << made.status();
  }
  ASSERT_TRUE(made.ok()) << made.status();
  Network& network = **made;

  std::map<std::string, int> ours;
  for (int i = 0; i < network.spec().parameters_size(); ++i) {
    const ParameterSpec& spec = network.spec().parameters(i);
    if (spec.role() == ParameterSpec::TRAINED) ours[spec.name()] = i;
    std::fill(network.parameter(i).begin(), network.parameter(i).end(),
              spec.initializer().constant().value());
  }
  ASSERT_EQ(ours.size(), golden["gradients"].size());
  uint64_t stream = 0;
  for (const auto& [name, numbers] : golden["gradients"].items()) {
    ASSERT_EQ(ours.count(name), 1u) << name;
    Fill(stream++, network.spec().parameters(ours[name]), network.parameter(ours[name]));
  }
  network.InvalidateParameters();

  const int length = shape.IsSequence() ? shape.length : 1;
  const int places = length - shape.source;
  const bool pixels = std::string(model) == "unet";
  std::vector<float> image(shape.IsSequence() ? 0
                                              : size_t{1} * batch * shape.channels * shape.height *
                                                    shape.width);
  std::vector<int32_t> tokens(shape.IsSequence() ? batch * length : 0);
  std::vector<int32_t> labels(batch * places * (pixels ? shape.height * shape.width : 1));
  for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(Unit(kInput, i));
  const auto draw = [&](uint64_t from, size_t i) {
    return static_cast<int32_t>(Unit(from, i) * shape.classes);
  };
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = draw(kInput, i);
  for (int n = 0; n < batch; ++n) {
    for (int i = 0; i < shape.source; ++i) {
      int32_t& token = tokens[n * length + i];
      token = i < 1 + n % shape.source ? 1 + token % (shape.classes - 1) : 0;
    }
  }
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = draw(kLabels, i);

  const auto result = network.TrainStep({image, tokens}, labels, 1, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  const double loss = golden["loss"];
  EXPECT_NEAR(result->loss_sum / static_cast<double>(result->counted), loss, loss_bound * loss);
  stream = 0;
  std::vector<double> distances;
  for (const auto& [name, numbers] : golden["gradients"].items()) {
    const auto gradient = network.gradient(ours[name]);
    double length = 0, product = 0;
    for (size_t i = 0; i < gradient.size(); ++i) {
      length += std::pow(gradient[i], 2);
      product += gradient[i] * (2 * Unit(kProbe + stream, i) - 1);
    }
    ++stream;
    const double expected = numbers[0];
    EXPECT_NEAR(std::sqrt(length), expected, bound * expected + 1e-7) << name;
    EXPECT_NEAR(product, numbers[1].get<double>(), bound * expected + 1e-7) << name;
    distances.push_back((std::abs(product - numbers[1].get<double>()) - 1e-7) / expected);
  }
  std::ranges::sort(distances);
  EXPECT_LE(distances[distances.size() / 2], bound_of_half);
}

std::string NameOf(const ::testing::TestParamInfo<GoldenCase>& info) {
  return std::string(info.param.model) + "_" + info.param.backend;
}

INSTANTIATE_TEST_SUITE_P(Engine, GoldenTest,
                         ::testing::Values(GoldenCase{"lenet5", "reference"},
                                         GoldenCase{"lenet5", "onednn"},
                                         GoldenCase{"cnn", "reference"}, GoldenCase{"cnn", "onednn"},
                                         GoldenCase{"gpt", "reference"}, GoldenCase{"gpt", "onednn"},
                                         GoldenCase{"lstm_lm", "reference"},
                                         GoldenCase{"lstm_lm", "onednn"},
                                         GoldenCase{"transformer", "reference"},
                                         GoldenCase{"transformer", "onednn"},
                                         GoldenCase{"resnet20", "reference"},
                                         GoldenCase{"resnet20", "onednn"},
                                         GoldenCase{"unet", "onednn", 5e-3, 1e-5, 5e-4},
                                         GoldenCase{"squeezenet", "onednn"},
                                         GoldenCase{"resnet18", "onednn"},
                                         GoldenCase{"resnet50", "onednn", 0.1, 1e-4, 0.015},
                                         GoldenCase{"googlenet", "onednn", 0.03, 1e-5, 2e-3},
                                         GoldenCase{"lenet5", "cudnn"}, GoldenCase{"cnn", "cudnn"},
                                         GoldenCase{"gpt", "cudnn"}, GoldenCase{"lstm_lm", "cudnn"},
                                         GoldenCase{"transformer", "cudnn"},
                                         GoldenCase{"resnet20", "cudnn"},
                                         GoldenCase{"unet", "cudnn", 5e-3, 1e-5, 5e-4},
                                         GoldenCase{"squeezenet", "cudnn"},
                                         GoldenCase{"resnet18", "cudnn"},
                                         GoldenCase{"resnet50", "cudnn", 0.1, 1e-4, 0.015},
                                         GoldenCase{"googlenet", "cudnn", 0.03, 1e-5, 2e-3}),
                         NameOf);

}  // namespace
}  // namespace psgd
