// Whole networks train on the plugins as on the reference.
#include <algorithm>
#include <cmath>
#include <future>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/runtime/replicas.h"
#include "tests/folders.h"
#include "tests/unit/engine/network_fixture.h"

namespace psgd {
namespace {

using testing::Descend;
using ::testing::HasSubstr;
using testing::MakeNetwork;
using testing::MakePairProblem;
using testing::MakeProblem;
using testing::MakeTextProblem;
using testing::MakeTokenProblem;
using testing::Problem;
using testing::SequenceModel;
using testing::ZooModel;

constexpr double kLossBound = 1e-3;  // relative, after ten steps

class NetworkConformanceTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    options_.backend = GetParam();
    options_.plugin_dir = PluginDir();
    SkipWithoutBackend();
  }

  void SkipWithoutBackend() {
    const absl::Status status =
        Network::Create(ZooModel("mlp"), {1, 1, 1, 2}, 1, options_).status();
    if (absl::IsNotFound(status) || absl::IsFailedPrecondition(status) ||
        absl::IsUnavailable(status)) {
      GTEST_SKIP() << status;
    }
    ASSERT_TRUE(status.ok()) << status;
  }

  // A recorded step has no waits inside, because CUDA cannot record a synchronization.
  void ExpectRecorded(const Network& network, const char* model) {
    if (options_.backend == "cudnn") {
      EXPECT_TRUE(network.recorded().ok()) << model << ": " << network.recorded();
    }
  }

  // On a device, weights written while a step computes give the same bits as weights written after
  // the step.
  void CompareAhead(const ModelConfig& model, const Problem& problem) {
    const auto between = MakeNetwork(model, problem, options_);
    const auto ahead = MakeNetwork(model, problem, options_);
    if (!ahead->on_device()) return;
    const absl::Status room = ahead->MakeRoomAhead(/*on_host=*/true);
    ASSERT_TRUE(room.ok()) << room;
    for (uint64_t step = 0; step < 6; ++step) {
      const auto next = [&](std::span<const float> now, std::span<float> weights) {
        const float factor = 0.5f + 0.25f * static_cast<float>(step % 4);
        for (size_t k = 0; k < now.size(); ++k) weights[k] = factor * now[k];
      };
      std::future<absl::Status> staged;
      const auto stage = [&] {
        staged = std::async(std::launch::async, [&] {
          for (int i = 0; i < ahead->spec().parameters_size(); ++i) {
            next(ahead->parameter(i), ahead->next_parameter(i));
          }
          return ahead->StageParameters(*ahead);
        });
        return false;
      };
      const StepBatch batch = {problem.input(), problem.labels};
      const auto result = ahead->TrainStep(batch, step, nullptr, {.meanwhile = stage});
      const auto expected = between->TrainStep(batch, step, nullptr);
      ASSERT_TRUE(result.ok() && expected.ok()) << result.status() << expected.status();
      EXPECT_EQ(result->loss_sum, expected->loss_sum) << model.zoo() << ", step " << step;
      for (int i = 0; i < ahead->spec().parameters_size(); ++i) {
        EXPECT_TRUE(std::ranges::equal(ahead->gradient(i), between->gradient(i))) << i;
        next(between->parameter(i), between->parameter(i));
      }
      between->InvalidateParameters();
      if (!staged.valid()) stage();  // the device was too quick for a call of `stage`
      ASSERT_TRUE(staged.get().ok());
      ahead->TakeStagedParameters();
    }
  }

  // On a host, weights may come while a step computes: each is brought before the first kernel that
  // reads it.
  void CompareBrought(const ModelConfig& model, const Problem& problem) {
    const auto whole = MakeNetwork(model, problem, options_);
    const auto brought = MakeNetwork(model, problem, options_);
    if (!brought->waits_by_parameter()) return;
    for (uint64_t step = 0; step < 3; ++step) {
      std::vector<std::vector<float>> weights;
      for (int i = 0; i < brought->spec().parameters_size(); ++i) {
        const std::span<float> own = brought->parameter(i);
        weights.emplace_back(own.begin(), own.end());
        std::ranges::fill(own, NAN);  // nothing is there yet
      }
      std::vector<int> times(weights.size());
      BesideStep beside;
      beside.bring = [&](int i) {
        ++times[static_cast<size_t>(i)];
        std::ranges::copy(weights[static_cast<size_t>(i)], brought->parameter(i).begin());
        return absl::OkStatus();
      };
      brought->InvalidateParameters();
      const StepBatch batch = {problem.input(), problem.labels};
      const auto result = brought->TrainStep(batch, step, nullptr, beside);
      const auto expected = whole->TrainStep(batch, step, nullptr);
      ASSERT_TRUE(result.ok() && expected.ok()) << result.status() << expected.status();
      EXPECT_EQ(result->loss_sum, expected->loss_sum) << model.zoo() << ", step " << step;
      for (int i = 0; i < brought->spec().parameters_size(); ++i) {
        const auto index = static_cast<size_t>(i);
        EXPECT_LE(times[index], 1);
        // No kernel reads running statistics.
        if (times[index] == 0) std::ranges::copy(weights[index], brought->parameter(i).begin());
        EXPECT_TRUE(std::ranges::equal(brought->gradient(i), whole->gradient(i))) << i;
        for (Network* const network : {brought.get(), whole.get()}) {
          const std::span<float> own = network->parameter(i);
          const std::span<const float> gradient = network->gradient(i);
          for (size_t k = 0; k < own.size(); ++k) own[k] -= 0.01f * gradient[k];
        }
      }
      whole->InvalidateParameters();
    }
    // An error of the weights is the step's.
    const auto status =
        brought->TrainStep({problem.input(), problem.labels}, 3, nullptr,
                           {.bring = [](int) { return absl::DataLossError("no weights"); }});
    EXPECT_TRUE(absl::IsDataLoss(status.status())) << status.status();
  }

  NetworkOptions options_;
};

TEST_P(NetworkConformanceTest, EachParameterIsBroughtBeforeItIsRead) {
  const Problem images = MakeProblem({1, 16, 16, 4}, 4);
  for (const char* model : {"mlp", "lenet5", "cnn", "resnet20"})
    CompareBrought(ZooModel(model, 0.25), images);
  for (const char* model : {"gpt", "lstm_lm"})
    CompareBrought(SequenceModel(model, 0.25), MakeTokenProblem(13, 17, 5));
  CompareBrought(SequenceModel("transformer", 0.25), MakePairProblem(7, 17, 9));
}

TEST_P(NetworkConformanceTest, TenStepsFollowTheReference) {
  const Problem problem = MakeProblem({1, 16, 16, 4}, 4);
  for (const char* model : {"mlp", "lenet5", "cnn"}) {
    const auto network = MakeNetwork(ZooModel(model, 0.25), problem, options_);
    const auto reference = MakeNetwork(ZooModel(model, 0.25), problem, {.backend = "reference"});
    double first = 0, last = 0;
    for (uint64_t step = 0; step < 10; ++step) {
      const double expected = Descend(reference.get(), problem, step, 0.02f);
      last = Descend(network.get(), problem, step, 0.02f);
      if (step == 0) first = last;
      EXPECT_NEAR(last, expected, kLossBound * (1 + expected)) << model << ", step " << step;
    }
    EXPECT_LT(last, first) << model;
    ExpectRecorded(*network, model);
    const auto evaluated = network->Evaluate(problem.images, problem.labels);
    const auto expected = reference->Evaluate(problem.images, problem.labels);
    ASSERT_TRUE(evaluated.ok() && expected.ok());
    EXPECT_NEAR(evaluated->loss_sum, expected->loss_sum, kLossBound * (1 + expected->loss_sum));
    EXPECT_EQ(evaluated->counted, 4u);
  }
}

TEST_P(NetworkConformanceTest, SequenceModelsFollowTheReference) {
  for (const char* model : {"gpt", "lstm_lm", "transformer"}) {
    const bool pairs = std::string(model) == "transformer";
    const Problem problem = pairs ? MakePairProblem(7, 17, 9) : MakeTokenProblem(13, 17, 5);
    const float rate = pairs ? 0.1f : 0.3f;
    const ModelConfig config = SequenceModel(model, 0.25);
    const auto network = MakeNetwork(config, problem, options_);
    const auto again = MakeNetwork(config, problem, options_);
    const auto reference = MakeNetwork(config, problem, {.backend = "reference"});
    for (uint64_t step = 0; step < 10; ++step) {
      const double expected = Descend(reference.get(), problem, step, rate);
      const double loss = Descend(network.get(), problem, step, rate);
      EXPECT_NEAR(loss, expected, kLossBound * (1 + expected)) << model << ", step " << step;
      EXPECT_EQ(Descend(again.get(), problem, step, rate), loss) << model << ", step " << step;
    }
    ExpectRecorded(*network, model);
    const auto evaluated = network->Evaluate(problem.tokens, problem.labels);
    const auto expected = reference->Evaluate(problem.tokens, problem.labels);
    ASSERT_TRUE(evaluated.ok() && expected.ok());
    EXPECT_NEAR(evaluated->loss_sum, expected->loss_sum, kLossBound * (1 + expected->loss_sum));
    EXPECT_EQ(evaluated->counted, pairs ? 7u + 1 + 2 + 3 + 4 + 5 + 6 + 7 + 1 : 65u);
  }
}

TEST_P(NetworkConformanceTest, TargetsFollowTheReference) {
  for (const int targets : {1, 3}) {
    const Problem problem = testing::MakeTargetProblem(targets);
    for (const ModelConfig::Loss loss : testing::kTargetLosses) {
      const ModelConfig model = testing::TargetModel(loss);
      const auto network = MakeNetwork(model, problem, options_);
      const auto reference = MakeNetwork(model, problem, {.backend = "reference"});
      for (uint64_t step = 0; step < 10; ++step) {
        const double expected = Descend(reference.get(), problem, step, 0.1f);
        EXPECT_NEAR(Descend(network.get(), problem, step, 0.1f), expected, kLossBound)
            << ModelConfig::Loss_Name(loss) << ", step " << step;
      }
      ExpectRecorded(*network, "mlp");
      const auto evaluated = network->Evaluate(problem.step_batch());
      const auto expected = reference->Evaluate(problem.step_batch());
      ASSERT_TRUE(evaluated.ok() && expected.ok());
      EXPECT_NEAR(evaluated->loss_sum, expected->loss_sum, kLossBound * 12);
      EXPECT_EQ(evaluated->counted, 11u);
      ASSERT_EQ(network->logits().size(), 12u * static_cast<size_t>(targets));
      for (size_t i = 0; i < network->logits().size(); ++i) {
        EXPECT_NEAR(network->logits()[i], reference->logits()[i], kLossBound);
      }
    }
  }
}

TEST_P(NetworkConformanceTest, TheSameRunGivesTheSameWeights) {
  const Problem problem = MakeProblem({3, 9, 11, 5}, 5);
  const auto a = MakeNetwork(ZooModel("cnn", 0.5), problem, options_);
  const auto b = MakeNetwork(ZooModel("cnn", 0.5), problem, options_);
  for (uint64_t step = 0; step < 4; ++step) {
    EXPECT_EQ(Descend(a.get(), problem, step, 0.02f), Descend(b.get(), problem, step, 0.02f));
  }
  for (int i = 0; i < a->spec().parameters_size(); ++i) {
    const std::span<float> left = a->parameter(i), right = b->parameter(i);
    EXPECT_TRUE(std::equal(left.begin(), left.end(), right.begin()))
        << a->spec().parameters(i).name();
  }
}

// Evaluation shares memory with training and may run between any two steps.
TEST_P(NetworkConformanceTest, EvaluationLeavesTrainingAlone) {
  const Problem problem = MakeProblem({1, 16, 16, 4}, 4);
  const auto plain = MakeNetwork(ZooModel("cnn", 0.5), problem, options_);
  const auto mixed = MakeNetwork(ZooModel("cnn", 0.5), problem, options_);
  for (uint64_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(mixed->Evaluate(problem.images, problem.labels).ok());
    EXPECT_EQ(Descend(plain.get(), problem, step, 0.02f),
              Descend(mixed.get(), problem, step, 0.02f));
  }
}

TEST_P(NetworkConformanceTest, NewParametersCountOnceTheyAreAnnounced) {
  const Problem problem = MakeProblem({1, 16, 16, 4}, 4);
  const auto network = MakeNetwork(ZooModel("lenet5"), problem, options_);
  const double before = network->Evaluate(problem.images, problem.labels)->loss_sum;
  for (float& weight : network->parameter(2)) weight *= 2;
  network->InvalidateParameters();
  const double after = network->Evaluate(problem.images, problem.labels)->loss_sum;
  EXPECT_NE(before, after);
}

TEST_P(NetworkConformanceTest, WeightsMayComeWhileAStepComputes) {
  const Problem problem = MakeProblem({1, 16, 16, 4}, 4);
  for (const char* model : {"lenet5", "cnn"}) CompareAhead(ZooModel(model, 0.25), problem);
}

TEST(Replicas, OnlyGpusMeetOnDevices) {
  const Problem problem = MakeProblem({1, 4, 4, 2}, 12);
  const NetworkOptions onednn = {.backend = "onednn", .plugin_dir = PluginDir()};
  const auto replicas =
      Replicas::Create(ZooModel("mlp"), problem.shape, 12, std::vector<NetworkOptions>(2, onednn),
                       ReduceOn::kDevices);
  if (absl::IsNotFound(replicas.status())) GTEST_SKIP() << replicas.status();
  EXPECT_TRUE(absl::IsInvalidArgument(replicas.status())) << replicas.status();
  EXPECT_THAT(std::string(replicas.status().message()), HasSubstr("node.reduce: host"));
}

// Coarser precisions of a device learn as the reference does and repeat to the bit.
class PrecisionTest : public NetworkConformanceTest {
 protected:
  void SetUp() override {
    options_.backend = "cudnn";
    options_.plugin_dir = PluginDir();
    const auto precision = PrecisionNamed(GetParam());
    ASSERT_TRUE(precision.ok()) << precision.status();
    options_.precision = *precision;
    SkipWithoutBackend();
  }

  void Compare(const ModelConfig& model, const Problem& problem, float learning_rate) {
    constexpr double kBound = 0.05;  // of the loss, after ten steps of bf16
    const auto network = MakeNetwork(model, problem, options_);
    const auto again = MakeNetwork(model, problem, options_);
    const auto reference = MakeNetwork(model, problem, {.backend = "reference"});
    for (uint64_t step = 0; step < 10; ++step) {
      const double expected = Descend(reference.get(), problem, step, learning_rate);
      const double loss = Descend(network.get(), problem, step, learning_rate);
      EXPECT_NEAR(loss, expected, kBound * (1 + expected)) << model.zoo() << ", step " << step;
      EXPECT_EQ(Descend(again.get(), problem, step, learning_rate), loss) << model.zoo();
    }
  }
};

TEST_P(PrecisionTest, TenStepsFollowTheReference) {
  for (const char* model : {"mlp", "lenet5", "cnn"}) {
    Compare(ZooModel(model, 0.25), MakeProblem({1, 16, 16, 4}, 4), 0.02f);
  }
  for (const char* model : {"gpt", "lstm_lm"}) {
    Compare(SequenceModel(model, 0.25), MakeTokenProblem(13, 17, 5), 0.3f);
  }
  Compare(SequenceModel("transformer", 0.25), MakePairProblem(7, 17, 9), 0.1f);
  Compare(SequenceModel("transformer_encoder", 0.25), MakeTextProblem(), 0.1f);
}

TEST_P(PrecisionTest, WeightsMayComeWhileAStepComputes) {
  const Problem problem = MakeProblem({1, 16, 16, 4}, 4);
  for (const char* model : {"lenet5", "cnn"}) CompareAhead(ZooModel(model, 0.25), problem);
}

// A loss of any size gives finite gradients, after some repeated steps.
TEST_P(PrecisionTest, GradientsThatOverflowAreComputedAgain) {
  const Problem problem = MakeProblem({1, 16, 16, 4}, 4);
  auto network = MakeNetwork(ZooModel("mlp"), problem, options_);
  const int last = network->spec().parameters_size() - 1;
  for (int i = 0; i <= last; ++i) {
    for (float& weight : network->parameter(i)) weight *= i == 0 ? 1e-2f : i == last - 1 ? 1e3f : 1;
  }
  network->InvalidateParameters();
  std::vector<int> finished;
  const auto result =
      network->TrainStep(problem.input(), problem.labels, 0, [&](int i) { finished.push_back(i); });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(finished.size(), static_cast<size_t>(last + 1));  // once each, after all repeats
  for (int i = 0; i <= last; ++i) {
    for (float value : network->gradient(i)) ASSERT_TRUE(std::isfinite(value)) << "parameter " << i;
  }
  if (options_.precision == Precision::kFp16) {
    EXPECT_GT(result->repeated, 0);
  } else {
    EXPECT_EQ(network->loss_scale(), 1);
    EXPECT_EQ(result->repeated, 0);
  }
}

// Each kernel of a step is timed, beside the work that its shapes ask for.
TEST_P(NetworkConformanceTest, NodesAreTimed) {
  const Problem problem = MakeProblem({1, 28, 28, 10}, 4);
  auto network = MakeNetwork(ZooModel("lenet5"), problem, options_);
  ASSERT_NE(network, nullptr);
  ASSERT_TRUE(network->TrainStep(problem.input(), problem.labels, 0, nullptr).ok());
  const auto times = network->TimeNodes(2);
  ASSERT_TRUE(times.ok()) << times.status();
  std::map<std::string, double> flops;
  for (const Network::NodeTime& node : *times) {
    EXPECT_GT(node.seconds, 0) << node.name;
    EXPECT_GT(node.bytes, 0) << node.name;
    flops[node.op] += node.flops;
  }
  EXPECT_GT(flops["Conv2d"], 0);
  // A relu may be part of a product.
  EXPECT_GE(flops["Dense"] + flops["Dense+Relu"], flops["DenseBackwardWeights"]);
  EXPECT_EQ(flops["Pool"], 0);
}

// Infinite gradients make NaN where they meet, as in the backward pass of softmax. The scale reacts
// to them as to infinity.
TEST_P(PrecisionTest, GradientsThatAreNotNumbersAreComputedAgain) {
  const Problem problem = MakeTokenProblem(13, 17, 5);
  auto network = MakeNetwork(SequenceModel("gpt"), problem, options_);
  ASSERT_NE(network, nullptr);
  const int count = network->spec().parameters_size();
  for (int i = 0; i < count; ++i) {
    const bool grows = network->spec().parameters(i).name() == "ln_f.weight";
    for (float& weight : network->parameter(i)) weight *= grows ? 1e3f : 1;
  }
  network->InvalidateParameters();
  const auto result = network->TrainStep(problem.input(), problem.labels, 0, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(std::isfinite(result->loss_sum));
  EXPECT_EQ(result->repeated > 0, options_.precision == Precision::kFp16);
  for (int i = 0; i < count; ++i) {
    for (float value : network->gradient(i)) ASSERT_TRUE(std::isfinite(value)) << "parameter " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Cudnn, PrecisionTest, ::testing::Values("tf32", "bf16", "fp16"),
                         [](const auto& info) { return "cudnn_" + info.param; });

INSTANTIATE_TEST_SUITE_P(Backends, NetworkConformanceTest,
                         ::testing::Values("reference", "onednn", "cudnn"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace psgd
