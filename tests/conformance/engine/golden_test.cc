// Compares a step of whole networks, and the evaluation after it, with PyTorch's in double. The
// numbers are in tests/golden/networks.json, beside the script that made them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/conformance/engine/golden_graph.h"
#include "tests/conformance/engine/golden_problem.h"
#include "tests/folders.h"

namespace psgd {
namespace {

using testing::AddTo;
using testing::GoldenProblem;
using testing::KeptOf;

struct GoldenCase {
  const char* model;
  const char* backend;
  // Bound of a gradient, relative to its length. It is wide if few values are normalized, which
  // multiplies roundings, or if a rounding turns a relu in a small image. The loss is always close.
  double bound = 1e-4;
  double loss_bound = 1e-5;
  // Bound of the closer half of all gradients. A turned relu changes few gradients, a wrong formula
  // changes most.
  double bound_of_half = 1e-4;
  double logits_bound = 1e-5;      // relative to their length
  double evaluation_bound = 1e-5;  // of the loss after a step
};

void PrintTo(const GoldenCase& test, std::ostream* out) { *out << test.model; }

bool IsAbsent(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsFailedPrecondition(status) ||
         absl::IsUnavailable(status);
}

class GoldenTest : public ::testing::TestWithParam<GoldenCase> {
 protected:
  static constexpr double kRounding = 1e-7;  // allowed in a gradient that is zero
};

TEST_P(GoldenTest, IsPyTorchs) {
  const GoldenCase& test = GetParam();
  const GoldenProblem problem(test.model);
  const testing::Json& golden = problem.golden;
  auto made = Network::Create(problem.config, problem.shape, problem.batch,
                              {.backend = test.backend, .plugin_dir = PluginDir()});
  if (IsAbsent(made.status())) GTEST_SKIP() << made.status();
  ASSERT_TRUE(made.ok()) << made.status();
  Network& network = **made;

  std::map<std::string, int> ours;
  for (int i = 0; i < network.spec().parameters_size(); ++i) {
    const ParameterSpec& spec = network.spec().parameters(i);
    if (spec.role() == ParameterSpec::TRAINED) {
      ASSERT_EQ(problem.streams.count(spec.name()), 1u) << spec.name();
      ours[spec.name()] = i;
    }
    problem.FillFirstValues(spec, network.parameter(i));
  }
  ASSERT_EQ(ours.size(), golden["gradients"].size());
  network.InvalidateParameters();

  const NetworkInput input(problem.image, problem.tokens, problem.values);
  const auto result = network.TrainStep(input, problem.labels, 1, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  const double loss = golden["loss"];
  EXPECT_NEAR(result->loss_sum / static_cast<double>(result->counted), loss,
              test.loss_bound * loss);
  std::vector<double> distances;
  for (const auto& [name, numbers] : golden["gradients"].items()) {
    const auto kept =
        KeptOf(network.gradient(ours[name]), GoldenProblem::kProbe + problem.streams.at(name));
    testing::ExpectKept(numbers, kept, test.bound, kRounding, name);
    const double length = numbers[0], product = numbers[1];
    distances.push_back((std::abs(kept.product - product) - kRounding) / length);
  }
  std::ranges::sort(distances);
  EXPECT_LE(distances[distances.size() / 2], test.bound_of_half);

  for (int i = 0; i < network.spec().parameters_size(); ++i) {
    const bool trained = network.spec().parameters(i).role() == ParameterSpec::TRAINED;
    AddTo(network.parameter(i), trained ? -GoldenProblem::kRate : 1, network.gradient(i));
  }
  network.InvalidateParameters();
  const auto evaluated = network.Evaluate(input, problem.labels);
  ASSERT_TRUE(evaluated.ok()) << evaluated.status();
  const double evaluation = golden["evaluation"];
  EXPECT_NEAR(evaluated->loss_sum / static_cast<double>(evaluated->counted), evaluation,
              test.evaluation_bound * evaluation);
}

TEST_P(GoldenTest, LogitsArePyTorchs) {
  const GoldenCase& test = GetParam();
  const GoldenProblem problem(test.model);
  auto backend = LoadBackend(test.backend, PluginDir(), {});
  if (IsAbsent(backend.status())) GTEST_SKIP() << backend.status();
  ASSERT_TRUE(backend.ok()) << backend.status();
  auto model = BuildModel(problem.config, problem.shape, problem.batch, Mode::kTrain);
  ASSERT_TRUE(model.ok()) << model.status();
  testing::GoldenGraph<float> graph(problem, *std::move(model), *std::move(backend));
  graph.SetFirstValues();
  graph.Run();
  testing::ExpectLogits(problem.golden, graph.Logits(), test.logits_bound);
}

struct DoubleCase {
  const char* model;
  bool small = false;
};

void PrintTo(const DoubleCase& test, std::ostream* out) { *out << test.model; }

// The reference in double: a difference to PyTorch is an error and no rounding, even in a deep
// network. The bound allows for epsilons of normalizations, which the engine keeps in float.
class GoldenInDouble : public ::testing::TestWithParam<DoubleCase> {
 protected:
  static constexpr double kBound = 1e-5, kRounding = 1e-12;
};

TEST_P(GoldenInDouble, IsPyTorchs) {
  const GoldenProblem problem(GetParam().model, GetParam().small);
  const testing::Json& golden = problem.golden;
  auto train = BuildTrainingGraph(problem.config, problem.shape, problem.batch);
  auto evaluate = BuildModel(problem.config, problem.shape, problem.batch, Mode::kEvaluate);
  ASSERT_TRUE(train.ok() && evaluate.ok()) << train.status() << evaluate.status();
  testing::GoldenGraph<double> trained(problem, *std::move(train),
                                       MakeReferenceBackend<double>({}));
  trained.SetFirstValues();
  trained.Run();
  const double loss = golden["loss"], evaluation = golden["evaluation"];
  EXPECT_NEAR(trained.Loss(), loss, kBound * loss);
  testing::ExpectLogits(golden, trained.Logits(), kBound);

  testing::GoldenGraph<double> evaluated(problem, *std::move(evaluate),
                                         MakeReferenceBackend<double>({}));
  const ModelSpec& spec = trained.spec();
  size_t compared = 0;
  testing::Kept all;
  for (int i = 0; i < spec.parameters_size(); ++i) {
    const std::vector<double> gradient = trained.Gradient(i);
    std::vector<double> values = problem.FirstValues(spec.parameters(i));
    double factor = 1;
    if (spec.parameters(i).role() == ParameterSpec::TRAINED) {
      const std::string& name = spec.parameters(i).name();
      const auto kept = KeptOf(gradient, GoldenProblem::kProbe + problem.streams.at(name));
      if (!GetParam().small) {
        testing::ExpectKept(golden["gradients"][name], kept, kBound, kRounding, name);
      }
      all = {std::hypot(all.length, kept.length), all.product + kept.product};
      ++compared;
      factor = -GoldenProblem::kRate;
    }
    AddTo(std::span(values), factor, gradient);
    evaluated.SetValue(i, values);
  }
  EXPECT_EQ(compared, problem.streams.size());
  if (GetParam().small) {
    testing::ExpectKept(golden["gradient"], all, kBound, kRounding, "all gradients");
  }
  evaluated.Run();
  EXPECT_NEAR(evaluated.Loss(), evaluation, kBound * evaluation);
}

// alexnet and vgg16 are left out, for they have hundreds of megabytes of weights and no op of their
// own; resnet50, for its blocks are resnet18's with one convolution more.
INSTANTIATE_TEST_SUITE_P(
    Engine, GoldenInDouble,
    ::testing::Values(DoubleCase{"mlp"}, DoubleCase{"lenet5"}, DoubleCase{"cnn"},
                      DoubleCase{"resnet20"}, DoubleCase{"squeezenet"}, DoubleCase{"gpt"},
                      DoubleCase{"transformer"}, DoubleCase{"lstm_lm"}, DoubleCase{"bag_of_tokens"},
                      DoubleCase{"transformer_encoder"}, DoubleCase{"logistic_regression"},
                      DoubleCase{"ncf"}, DoubleCase{"unet", true}, DoubleCase{"resnet18", true},
                      DoubleCase{"googlenet", true}, DoubleCase{"inception_v3", true}),
    [](const auto& info) { return std::string(info.param.model); });

std::string NameOf(const ::testing::TestParamInfo<GoldenCase>& info) {
  return std::string(info.param.model) + "_" + info.param.backend;
}

// Cases for every backend, and for all backends but the plain loops.
std::vector<GoldenCase> Cases() {
  std::vector<GoldenCase> cases;
  for (const char* backend : {"reference", "onednn", "cudnn"}) {
    for (const char* model :
         {"mlp", "lenet5", "cnn", "gpt", "lstm_lm", "transformer", "bag_of_tokens",
          "transformer_encoder", "logistic_regression", "ncf"}) {
      cases.push_back({model, backend});
    }
  }
  // The plain loops are slow, so their large networks are compared in double alone.
  for (const char* backend : {"onednn", "cudnn"}) {
    for (const GoldenCase& test :
         {GoldenCase{"resnet20", backend, 1e-2, 1e-5, 5e-3},
          GoldenCase{"unet", backend, 5e-3, 1e-5, 5e-4}, GoldenCase{"squeezenet", backend},
          GoldenCase{"resnet18", backend},
          GoldenCase{"resnet50", backend, 0.1, 1e-4, 0.015, 5e-4, 0.01},
          GoldenCase{"googlenet", backend, 0.03, 1e-5, 6e-3, 1e-4, 1e-4},
          GoldenCase{"inception_v3", backend, 0.3, 3e-4, 0.05, 1e-3, 1e-3},
          GoldenCase{"alexnet", backend}}) {
      cases.push_back(test);
    }
  }
  // On a CPU its 138 million weights take ten seconds, and alexnet has the same ops. cuDNN's
  // rounding changes which pixel of a pool is the largest, and so all gradients before it.
  cases.push_back({"vgg16", "cudnn", 0.02, 1e-5, 2e-3, 1e-5, 2e-4});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Engine, GoldenTest, ::testing::ValuesIn(Cases()), NameOf);

}  // namespace
}  // namespace psgd
