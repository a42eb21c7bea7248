// What a network does around the kernels of a device: its numbers are those of the same kernels on the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/plugin.h"
#include "engine/replicas.h"
#include "tests/queued_device/asked.h"
#include "tests/unit/engine/network_fixture.h"

namespace psgd {
namespace {

using testing::MakeNetwork;
using testing::MakeProblem;
using testing::Problem;
using testing::ZooModel;

constexpr int kSeeds = 20;
constexpr int kSteps = 5;
constexpr float kRate = 0.05f;

NetworkOptions Device(int seed) {
  return {.backend = "cudnn", .device = seed, .plugin_dir = PSGD_QUEUED_DEVICE_DIR};
}
const NetworkOptions kHost = {.backend = "reference"};

// Batches of their own for every step, so that a step on another's batch shows.
std::vector<Problem> Problems() {
  std::vector<Problem> problems;
  for (int step = 0; step < kSteps; ++step) {
    Problem& problem = problems.emplace_back(MakeProblem({1, 8, 8, 4}, 6));
    for (float& pixel : problem.images) pixel += 0.1f * static_cast<float>(step);
    std::rotate(problem.labels.begin(), problem.labels.begin() + step % 6, problem.labels.end());
  }
  return problems;
}

// The weights after some steps of plain descent, every gradient applied when it is named. With `ahead`
// each step is told of the next one's batch, which is then spoilt where it was.
template <typename Net>
std::vector<float> Train(Net* network, bool ahead, bool evaluate) {
  std::vector<Problem> problems = Problems();
  std::vector<float> made;
  for (int step = 0; step < kSteps; ++step) {
    const auto batch = [&](int of) {
      return StepBatch{problems[of].input(), problems[of].labels, ahead && of > 0};
    };
    if (evaluate) {
      const auto result = network->Evaluate(problems[0].input(), problems[0].labels);
      EXPECT_TRUE(result.ok()) << result.status();
      made.push_back(static_cast<float>(result->loss_sum));
    }
    std::vector<std::vector<float>> gradients(network->spec().parameters_size());
    const auto keep = [&](int i) {
      gradients[i].assign(network->gradient(i).begin(), network->gradient(i).end());
    };
    const bool more = ahead && step + 1 < kSteps;
    const StepBatch next = batch(more ? step + 1 : step);
    const auto result = network->TrainStep(batch(step), step, keep, more ? &next : nullptr);
    EXPECT_TRUE(result.ok()) << result.status();
    made.push_back(static_cast<float>(result->loss_sum));
    for (size_t i = 0; i < gradients.size(); ++i) {
      const std::span<float> weights = network->parameter(static_cast<int>(i));
      EXPECT_EQ(weights.size(), gradients[i].size());
      for (size_t k = 0; k < weights.size(); ++k) weights[k] -= kRate * gradients[i][k];
    }
    network->InvalidateParameters();
    if (more) problems[step + 1].images.assign(problems[step + 1].images.size(), 1e9f);
    if (more) problems[0] = Problems()[0];  // evaluated on
  }
  for (int i = 0; i < network->spec().parameters_size(); ++i) {
    made.insert(made.end(), network->parameter(i).begin(), network->parameter(i).end());
  }
  return made;
}

TEST(QueuedDevice, TrainsAsTheHostDoes) {
  const Problem problem = MakeProblem({1, 8, 8, 4}, 6);
  for (const char* model : {"mlp", "cnn"}) {
    for (const bool evaluate : {false, true}) {
      const auto host = MakeNetwork(ZooModel(model, 0.25), problem, kHost);
      const std::vector<float> expected = Train(host.get(), false, evaluate);
      for (int seed = 0; seed < kSeeds; ++seed) {
        const auto network = MakeNetwork(ZooModel(model, 0.25), problem, Device(seed));
        ASSERT_TRUE(network->stages());
        const bool ahead = seed % 4 != 0;
        EXPECT_EQ(Train(network.get(), ahead, evaluate), expected)
            << model << ", seed " << seed << (evaluate ? ", with evaluations" : "");
        EXPECT_TRUE(network->recorded().ok()) << network->recorded();
      }
    }
  }
}

TEST(QueuedDevice, AStepThatCannotBeRecordedIsLaunchedKernelByKernel) {
  const auto found = FindInPlugin("cudnn", PSGD_QUEUED_DEVICE_DIR, "psgd_queued_device_faults");
  ASSERT_TRUE(found.ok()) << found.status();
  queued::Faults* const faults = reinterpret_cast<queued::FaultsFunction>(*found)();
  const Problem problem = MakeProblem({1, 8, 8, 4}, 6);
  const auto host = MakeNetwork(ZooModel("cnn", 0.25), problem, kHost);
  const std::vector<float> expected = Train(host.get(), false, false);
  faults->recorded_downloads = true;
  const auto network = MakeNetwork(ZooModel("cnn", 0.25), problem, Device(3));
  EXPECT_EQ(Train(network.get(), true, false), expected);
  faults->recorded_downloads = false;
  EXPECT_THAT(network->recorded().ToString(),
              ::testing::HasSubstr("this device records no downloads"));
}

TEST(QueuedDevice, ReplicasTrainAsThoseOfTheHostDo) {
  const auto made = [](const std::vector<NetworkOptions>& options) {
    auto replicas = Replicas::Create(ZooModel("mlp"), {1, 8, 8, 4}, 6, options).value();
    for (int i = 0; i < replicas->spec().parameters_size(); ++i) {
      int k = i;
      for (float& weight : replicas->parameter(i)) {
        weight = 0.01f * static_cast<float>(++k * 37 % 19 - 9);
      }
    }
    replicas->InvalidateParameters();
    return replicas;
  };
  const std::vector<float> expected = Train(made({kHost, kHost, kHost}).get(), false, false);
  for (int seed = 0; seed < kSeeds; ++seed) {
    const auto replicas = made({Device(seed), Device(seed + 1), Device(seed + 2)});
    EXPECT_EQ(Train(replicas.get(), true, false), expected) << "seed " << seed;
  }
}

TEST(QueuedDevice, ABatchAheadThatDoesNotFitIsAnError) {
  const Problem problem = MakeProblem({1, 8, 8, 4}, 6);
  const auto network = MakeNetwork(ZooModel("mlp"), problem, Device(1));
  std::vector<int32_t> labels = problem.labels;
  labels[2] = 4;
  const StepBatch next = {problem.input(), labels};
  const auto result = network->TrainStep({problem.input(), problem.labels}, 0, nullptr, &next);
  EXPECT_THAT(result.status().ToString(), ::testing::HasSubstr("label 4 of sample 2"));
}

TEST(QueuedDevice, AHostTakesNoBatchesAhead) {
  const Problem problem = MakeProblem({1, 8, 8, 4}, 6);
  EXPECT_FALSE(MakeNetwork(ZooModel("mlp"), problem, kHost)->stages());
}

}  // namespace
}  // namespace psgd
