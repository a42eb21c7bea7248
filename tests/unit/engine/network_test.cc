#include "engine/runtime/network.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/engine/network_fixture.h"

namespace psgd {
namespace {

using testing::Descend;
using ::testing::HasSubstr;
using testing::MakeNetwork;
using testing::MakeProblem;
using testing::Problem;
using testing::ZooModel;

constexpr SampleShape kTiny = {1, 8, 8, 3};

std::vector<float> ValuesOf(std::span<const float> values) {
  return {values.begin(), values.end()};
}

TEST(NetworkTest, GradientsAreFinalWhenTheyAreNamedFromLastToFirst) {
  const Problem problem = MakeProblem(kTiny, 4);
  const auto network = MakeNetwork(ZooModel("cnn", 0.2), problem, testing::kReference);
  std::vector<int> order;
  std::vector<std::vector<float>> seen(network->spec().parameters_size());
  const auto result = network->TrainStep(problem.images, problem.labels, 0, [&](int i) {
    order.push_back(i);
    seen[i] = ValuesOf(network->gradient(i));
  });
  ASSERT_TRUE(result.ok()) << result.status();
  std::vector<int> expected(seen.size());
  std::iota(expected.rbegin(), expected.rend(), 0);
  EXPECT_EQ(order, expected);
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i], ValuesOf(network->gradient(static_cast<int>(i)))) << i;
  }
}

// A recomputed graph uses the front matrices last.
TEST(NetworkTest, HiddenMatricesAreTheSameWithRecomputation) {
  const Problem problem = MakeProblem(kTiny, 4);
  ModelConfig model = ZooModel("mlp");
  model.add_hidden(8);
  model.add_hidden(8);
  const std::vector<bool> plain =
      MakeNetwork(model, problem, testing::kReference)->hidden_matrices();
  EXPECT_TRUE(plain.front());
  EXPECT_FALSE(plain[plain.size() - 2]) << "the classes";
  for (const int segments : {2, 3}) {
    model.set_recompute(segments);
    EXPECT_EQ(MakeNetwork(model, problem, testing::kReference)->hidden_matrices(), plain);
  }
}

TEST(NetworkTest, GradientsOfTheLastLayerComeBeforeTheFirstAreComputed) {
  const Problem problem = MakeProblem(kTiny, 4);
  const auto network = MakeNetwork(ZooModel("mlp"), problem, testing::kReference);
  const std::vector<float> before = ValuesOf(network->gradient(0));
  int named = 0;
  const auto result = network->TrainStep(problem.images, problem.labels, 0, [&](int i) {
    if (i == 3) {
      EXPECT_EQ(ValuesOf(network->gradient(0)), before);
    }
    ++named;
  });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(named, 4);
  EXPECT_NE(ValuesOf(network->gradient(0)), before);
}

TEST(NetworkTest, TheSameInputsGiveTheSameBits) {
  const Problem problem = MakeProblem(kTiny, 6);
  const auto a = MakeNetwork(ZooModel("cnn", 0.5), problem, testing::kReference);
  const auto b = MakeNetwork(ZooModel("cnn", 0.5), problem, testing::kReference);
  for (uint64_t step = 0; step < 3; ++step) {
    EXPECT_EQ(Descend(a.get(), problem, step, 0.05f), Descend(b.get(), problem, step, 0.05f));
  }
  for (int i = 0; i < a->spec().parameters_size(); ++i) {
    EXPECT_EQ(ValuesOf(a->parameter(i)), ValuesOf(b->parameter(i)))
        << a->spec().parameters(i).name();
  }
}

TEST(NetworkTest, DropoutDependsOnStepWorkerAndSeed) {
  const Problem problem = MakeProblem(kTiny, 6);
  const ModelConfig model = ZooModel("mlp", 0.5);
  const auto loss = [&](uint64_t seed, uint32_t worker, uint64_t step) {
    const auto network =
        MakeNetwork(model, problem, {.backend = "reference", .seed = seed, .worker = worker});
    return network->TrainStep(problem.images, problem.labels, step, nullptr)->loss_sum;
  };
  const double base = loss(1, 0, 0);
  EXPECT_EQ(base, loss(1, 0, 0));
  EXPECT_NE(base, loss(2, 0, 0));
  EXPECT_NE(base, loss(1, 1, 0));
  EXPECT_NE(base, loss(1, 0, 1));
}

TEST(NetworkTest, LossFalls) {
  const Problem problem = MakeProblem(kTiny, 12);
  for (const char* model : {"mlp", "cnn"}) {
    const auto network = MakeNetwork(ZooModel(model), problem, testing::kReference);
    const double first = Descend(network.get(), problem, 0, 0.05f);
    double last = first;
    for (uint64_t step = 1; step < 12; ++step) last = Descend(network.get(), problem, step, 0.05f);
    EXPECT_LT(last, 0.5 * first) << model;
  }
}

TEST(NetworkTest, StatisticsMoveAsPytorchsDo) {
  const Problem problem = MakeProblem(kTiny, 6);
  const auto network = MakeNetwork(ZooModel("cnn"), problem, testing::kReference);
  ASSERT_TRUE(network->TrainStep(problem.images, problem.labels, 0, nullptr).ok());
  // bn1.running_var starts at 1, and its delta is 0.1 (batch variance - 1).
  ASSERT_EQ(network->spec().parameters(4).name(), "bn1.running_var");
  for (float delta : network->gradient(4)) EXPECT_GT(delta, -0.1f);
  // Once the running statistics equal the batch's, evaluation gives the same loss as training.
  double trained = 0;
  for (int round = 0; round < 60; ++round) trained = Descend(network.get(), problem, 0, 0.0f);
  const auto evaluated = network->Evaluate(problem.images, problem.labels);
  ASSERT_TRUE(evaluated.ok());
  EXPECT_NEAR(evaluated->loss_sum / 6, trained, 0.02 * trained);
}

TEST(NetworkTest, PaddedSamplesDoNotCount) {
  const Problem problem = MakeProblem(kTiny, 6);
  Problem half = MakeProblem(kTiny, 3);
  const auto full = MakeNetwork(ZooModel("mlp"), problem, testing::kReference);
  const auto small = MakeNetwork(ZooModel("mlp"), half, testing::kReference);
  std::vector<int32_t> labels = problem.labels;
  std::fill(labels.begin() + 3, labels.end(), -1);
  const auto padded = full->TrainStep(problem.images, labels, 0, nullptr);
  const auto whole = small->TrainStep(half.images, half.labels, 0, nullptr);
  ASSERT_TRUE(padded.ok() && whole.ok());
  EXPECT_EQ(padded->counted, 3u);
  EXPECT_EQ(padded->loss_sum, whole->loss_sum);
  EXPECT_EQ(ValuesOf(full->gradient(0)), ValuesOf(small->gradient(0)));

  const auto none = full->TrainStep(problem.images, std::vector<int32_t>(6, -1), 0, nullptr);
  EXPECT_EQ(none->counted, 0u);
  for (float g : full->gradient(0)) EXPECT_EQ(g, 0.0f);
}

TEST(NetworkTest, LossOfTargetsFalls) {
  const Problem problem = testing::MakeTargetProblem(2);
  for (const ModelConfig::Loss loss : testing::kTargetLosses) {
    const auto network = MakeNetwork(testing::TargetModel(loss), problem, testing::kReference);
    const double first = Descend(network.get(), problem, 0, 0.3f);
    double last = first;
    for (uint64_t step = 1; step < 100; ++step) last = Descend(network.get(), problem, step, 0.3f);
    EXPECT_LT(last, 0.8 * first) << ModelConfig::Loss_Name(loss);
    const auto result = network->Evaluate(problem.step_batch());
    EXPECT_EQ(result->counted, 11u);
    EXPECT_EQ(result->correct, 0u);
    EXPECT_EQ(network->logits().size(), 24u);
  }
}

TEST(NetworkTest, RefusesTargetsThatDoNotFitTheLossOrTheModel) {
  const Problem problem = testing::MakeTargetProblem(2);
  const auto error = [&](const ModelConfig& model, const SampleShape& shape) {
    return Network::Create(model, shape, 4, testing::kReference).status().ToString();
  };
  EXPECT_THAT(
      error(testing::TargetModel(ModelConfig::CROSS_ENTROPY), problem.shape),
      HasSubstr("model.loss is cross_entropy, which is of classes, but the data have real"));
  EXPECT_THAT(error(testing::TargetModel(ModelConfig::POISSON), kTiny),
              HasSubstr("model.loss is poisson, which is of counts, but the data have classes"));
  SampleShape pixels = {1, 16, 16, 2};
  pixels.targets = 2;
  ModelConfig unet = ZooModel("unet");
  unet.set_loss(ModelConfig::SQUARED);
  EXPECT_THAT(error(unet, pixels), HasSubstr("but a sample has 2 targets"));
  const auto network =
      MakeNetwork(testing::TargetModel(ModelConfig::SQUARED), problem, testing::kReference);
  EXPECT_THAT(network->Evaluate(problem.input(), problem.labels).status().ToString(),
              HasSubstr("a batch of 0 targets; the network takes 24"));
}

TEST(NetworkTest, RefusesBatchesThatDoNotFit) {
  const Problem problem = MakeProblem(kTiny, 2);
  const auto network = MakeNetwork(ZooModel("mlp"), problem, testing::kReference);
  const std::vector<int32_t> wrong = {0, 3};
  const absl::Status label = network->Evaluate(problem.images, wrong).status();
  EXPECT_THAT(label.ToString(), HasSubstr("label 3 of sample 1 is not below 3 classes"));
  const absl::Status size =
      network->TrainStep(std::span(problem.images).first(5), problem.labels, 0, nullptr).status();
  EXPECT_EQ(size.code(), absl::StatusCode::kInvalidArgument);
}

TEST(NetworkTest, NamesTheBackendsThatThereAre) {
  const absl::Status status =
      Network::Create(ZooModel("mlp"), kTiny, 2, {.backend = "onedn"}).status();
  EXPECT_THAT(status.ToString(), HasSubstr("did you mean \"onednn\"?"));
}

TEST(NetworkTest, SaysWhereItLookedForAPlugin) {
  const absl::Status status =
      Network::Create(ZooModel("mlp"), kTiny, 2, {.backend = "onednn", .plugin_dir = "/nowhere"})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.ToString(), HasSubstr("/nowhere/libpsgd_onednn.so"));
}

}  // namespace
}  // namespace psgd
