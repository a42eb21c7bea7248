#include "engine/runtime/replicas.h"

#include <filesystem>
#include <numeric>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/runtime/crew.h"
#include "tests/unit/engine/low_rank_model.h"
#include "tests/unit/engine/network_fixture.h"

namespace psgd {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::MakeNetwork;
using testing::MakeProblem;
using testing::MakeTokenProblem;
using ::testing::Ne;
using testing::Problem;
using testing::SequenceModel;
using testing::ZooModel;

std::unique_ptr<Replicas> MakeReplicas(const ModelConfig& model, const Problem& problem, int count,
                                       int batch, ReduceOn reduce = ReduceOn::kHost,
                                       int turns = 1) {
  auto replicas = Replicas::Create(
      model, problem.shape, batch / turns,
      std::vector<NetworkOptions>(static_cast<size_t>(count), testing::kReference), reduce, turns);
  EXPECT_TRUE(replicas.ok()) << replicas.status();
  if (!replicas.ok()) return nullptr;
  for (int i = 0; i < (*replicas)->spec().parameters_size(); ++i) {
    FillInitial((*replicas)->spec().parameters(i), 1, i, 0, (*replicas)->parameter(i));
  }
  (*replicas)->InvalidateParameters();
  return *std::move(replicas);
}

std::vector<std::vector<float>> Gradients(Replicas& replicas, const Problem& problem,
                                          uint64_t step) {
  std::vector<std::vector<float>> gradients(replicas.spec().parameters_size());
  const auto result = replicas.TrainStep(problem.input(), problem.labels, step, [&](int i) {
    gradients[i].assign(replicas.gradient(i).begin(), replicas.gradient(i).end());
  });
  EXPECT_TRUE(result.ok()) << result.status();
  return gradients;
}

// Expects the results of one network with the whole batch.
void ExpectAsOne(const ModelConfig& model, const Problem& problem, int count, ReduceOn reduce,
                 int turns = 1) {
  const auto one = MakeNetwork(model, problem, testing::kReference);
  const auto many = MakeReplicas(model, problem, count, problem.batch, reduce, turns);
  ASSERT_TRUE(one && many);
  EXPECT_EQ(many->batch(), problem.batch / turns);
  const auto expected = one->TrainStep(problem.step_batch(), 3, nullptr);
  std::vector<int> order;
  const auto result = many->TrainStep(problem.step_batch(), 3, [&](int i) { order.push_back(i); });
  ASSERT_TRUE(expected.ok() && result.ok()) << expected.status() << result.status();
  EXPECT_NEAR(result->loss_sum, expected->loss_sum, 1e-6 * expected->loss_sum);
  EXPECT_EQ(result->correct, expected->correct);
  EXPECT_EQ(result->counted, expected->counted);
  std::vector<int> backwards(one->spec().parameters_size());
  std::iota(backwards.rbegin(), backwards.rend(), 0);
  EXPECT_EQ(order, backwards);
  for (int i = 0; i < one->spec().parameters_size(); ++i) {
    for (size_t k = 0; k < one->gradient(i).size(); ++k) {
      ASSERT_NEAR(many->gradient(i)[k], one->gradient(i)[k], 1e-6)
          << one->spec().parameters(i).name() << " " << k;
    }
  }
  if (turns > 1) return;  // they evaluate smaller batches
  const auto evaluated = many->Evaluate(problem.step_batch());
  const auto expected_evaluation = one->Evaluate(problem.step_batch());
  ASSERT_TRUE(evaluated.ok() && expected_evaluation.ok());
  EXPECT_NEAR(evaluated->loss_sum, expected_evaluation->loss_sum, 1e-6 * expected->loss_sum);
}

class ReplicasTest : public ::testing::TestWithParam<ReduceOn> {};

INSTANTIATE_TEST_SUITE_P(GradientsMeet, ReplicasTest,
                         ::testing::Values(ReduceOn::kHost, ReduceOn::kDevices),
                         [](const auto& info) {
                           return info.param == ReduceOn::kHost ? "OnTheHost" : "OnDevices";
                         });

TEST_P(ReplicasTest, ComputeWhatOneNetworkWould) {
  const Problem problem = MakeProblem();
  for (int count : {1, 2, 3, 12}) ExpectAsOne(ZooModel("mlp"), problem, count, GetParam());
  ExpectAsOne(ZooModel("cnn"), MakeProblem({1, 16, 16, 4}, 4), 1, GetParam());
}

TEST_P(ReplicasTest, TakeABatchInTurns) {
  for (int turns : {2, 3, 6}) ExpectAsOne(ZooModel("mlp"), MakeProblem(), 1, GetParam(), turns);
  Problem problem = MakeProblem();
  for (int n = 0; n < 5; ++n) problem.labels[n] = -1;
  ExpectAsOne(ZooModel("mlp"), problem, 2, GetParam(), 3);
  ExpectAsOne(ZooModel("mlp"), problem, 1, GetParam(), 12);
  ExpectAsOne(SequenceModel("gpt"), MakeTokenProblem(7, 11, 4), 1, GetParam(), 2);
}

TEST_P(ReplicasTest, AMeanIsOverTheLabelsThatCountWhereverTheyAre) {
  Problem problem = MakeProblem();
  for (int n = 0; n < 5; ++n) problem.labels[n] = -1;  // the first of three replicas has no label
  ExpectAsOne(ZooModel("mlp"), problem, 3, GetParam());
  Problem tokens = MakeTokenProblem(7, 11, 4);
  for (int i = 3; i < 16; ++i) tokens.labels[i] = -1;
  ExpectAsOne(SequenceModel("gpt"), tokens, 2, GetParam());
}

TEST_P(ReplicasTest, EachHasItsPartOfTheTargets) {
  const Problem problem = testing::MakeTargetProblem(2);
  for (const ModelConfig::Loss loss : testing::kTargetLosses) {
    ExpectAsOne(testing::TargetModel(loss), problem, 3, GetParam());
  }
}

TEST_P(ReplicasTest, TheSameStepGivesTheSameBits) {
  const Problem problem = MakeProblem();
  const auto replicas = MakeReplicas(ZooModel("cnn", 0.3f), problem, 4, problem.batch, GetParam());
  ASSERT_TRUE(replicas);
  const auto first = Gradients(*replicas, problem, 1);
  for (int again = 0; again < 5; ++again) EXPECT_EQ(Gradients(*replicas, problem, 1), first);
  EXPECT_NE(Gradients(*replicas, problem, 2), first);  // other dropout masks
}

// The network has batch normalization, whose statistics are plain means over the replicas.
TEST(Replicas, GradientsAreTheSameWhereverTheyMeet) {
  Problem problem = MakeProblem();
  problem.labels[1] = -1;
  const auto on_host = MakeReplicas(ZooModel("cnn"), problem, 3, problem.batch);
  const auto on_devices =
      MakeReplicas(ZooModel("cnn"), problem, 3, problem.batch, ReduceOn::kDevices);
  ASSERT_TRUE(on_host && on_devices);
  EXPECT_EQ(Gradients(*on_devices, problem, 1), Gradients(*on_host, problem, 1));
}

// Else the first replica would make other gradients of the sum of all replicas.
TEST(Replicas, AGradientIsSummedInPlaceAfterTheKernelsThatReadIt) {
  const Problem problem = MakeProblem(testing::kLowRankShape);
  const ModelConfig model = testing::WriteLowRankModel();
  const auto on_host = MakeReplicas(model, problem, 2, problem.batch);
  const auto on_devices = MakeReplicas(model, problem, 2, problem.batch, ReduceOn::kDevices);
  std::filesystem::remove(model.onnx());
  ASSERT_TRUE(on_host && on_devices);
  for (Replicas* each : {on_host.get(), on_devices.get()}) testing::FillLowRankModel(each);
  const auto expected = Gradients(*on_host, problem, 1);
  for (const auto& gradient : expected) EXPECT_THAT(gradient, Contains(Ne(0.0f)));
  EXPECT_EQ(Gradients(*on_devices, problem, 1), expected);
}

TEST(Replicas, EachHasDropoutMasksOfItsOwn) {
  Problem half = MakeProblem({1, 16, 16, 4}, 4);
  Problem twice = half;
  twice.batch = 8;
  twice.images.insert(twice.images.end(), half.images.begin(), half.images.end());
  twice.labels.insert(twice.labels.end(), half.labels.begin(), half.labels.end());
  const auto one = MakeReplicas(ZooModel("mlp", 0.5f), half, 1, 4);
  const auto two = MakeReplicas(ZooModel("mlp", 0.5f), twice, 2, 8);
  ASSERT_TRUE(one && two);
  const auto alone = one->TrainStep(half.input(), half.labels, 1, nullptr);
  const auto both = two->TrainStep(twice.input(), twice.labels, 1, nullptr);
  ASSERT_TRUE(alone.ok() && both.ok());
  EXPECT_GT(std::abs(both->loss_sum - 2 * alone->loss_sum), 1e-3);
}

TEST_P(ReplicasTest, NewParametersReachAll) {
  const Problem problem = MakeProblem();
  const auto replicas = MakeReplicas(ZooModel("mlp"), problem, 3, problem.batch, GetParam());
  ASSERT_TRUE(replicas);
  const auto before = Gradients(*replicas, problem, 1);
  for (int i = 0; i < replicas->spec().parameters_size(); ++i) {
    for (float& value : replicas->parameter(i)) value = 0;
  }
  replicas->InvalidateParameters();
  const auto result = replicas->Evaluate(problem.input(), problem.labels);
  ASSERT_TRUE(result.ok());
  // With zero weights all classes have the same probability, on every replica.
  EXPECT_NEAR(result->loss_sum, 12 * std::log(4.0), 1e-5);
  EXPECT_NE(Gradients(*replicas, problem, 1), before);
}

TEST(Replicas, OneThatFailsLeavesNobodyWaiting) {
  const Problem problem = MakeProblem();
  const auto replicas = MakeReplicas(ZooModel("mlp"), problem, 3, problem.batch);
  ASSERT_TRUE(replicas);
  for (const size_t bad : {0u, 5u, 11u}) {
    std::vector<int32_t> labels = problem.labels;
    labels[bad] = 4;
    const auto result = replicas->TrainStep(problem.input(), labels, 1, [](int) {});
    EXPECT_TRUE(absl::IsInvalidArgument(result.status())) << result.status();
  }
  EXPECT_TRUE(replicas->TrainStep(problem.input(), problem.labels, 1, nullptr).ok());
}

TEST(Replicas, OnDevicesTooOneThatFailsLeavesNobodyWaiting) {
  const Problem problem = MakeProblem();
  for (const size_t bad : {0u, 5u, 11u}) {
    const auto replicas =
        MakeReplicas(ZooModel("mlp"), problem, 3, problem.batch, ReduceOn::kDevices);
    ASSERT_TRUE(replicas);
    std::vector<int32_t> labels = problem.labels;
    labels[bad] = 4;
    int handed_on = 0;
    const auto result = replicas->TrainStep(problem.input(), labels, 1, [&](int) { ++handed_on; });
    EXPECT_TRUE(absl::IsInvalidArgument(result.status())) << result.status();
    EXPECT_EQ(handed_on, 0);
    const auto next = replicas->TrainStep(problem.input(), problem.labels, 2, nullptr);
    EXPECT_TRUE(absl::IsAborted(next.status())) << next.status();
  }
}

TEST(Replicas, ABatchThatDoesNotDivideIsAnError) {
  const Problem problem = MakeProblem();
  const auto replicas = Replicas::Create(ZooModel("mlp"), problem.shape, 10,
                                         std::vector<NetworkOptions>(4, testing::kReference));
  EXPECT_TRUE(absl::IsInvalidArgument(replicas.status()));
  EXPECT_THAT(std::string(replicas.status().message()), HasSubstr("data.batch"));
}

TEST(Crew, EveryMemberWorksOnItsOwnThread) {
  Crew crew(3);
  std::vector<std::thread::id> threads(3);
  crew.Run([&](size_t member) { threads[member] = std::this_thread::get_id(); });
  EXPECT_EQ(threads[0], std::this_thread::get_id());
  EXPECT_EQ(std::set<std::thread::id>(threads.begin(), threads.end()).size(), 3u);
  std::vector<int> rounds(3);
  for (int round = 0; round < 200; ++round) {
    crew.Run([&](size_t member) {
      EXPECT_EQ(threads[member], std::this_thread::get_id());
      ++rounds[member];
    });
  }
  EXPECT_EQ(rounds, std::vector<int>(3, 200));
}

}  // namespace
}  // namespace psgd
