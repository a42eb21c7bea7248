// The work of a network around a device's kernels: its numbers equal those of the same kernels on
// the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>

#include "common/plugin.h"
#include "engine/runtime/replicas.h"
#include "tests/fakes/queued_device/asked.h"
#include "tests/folders.h"
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
constexpr int kNever = -1;
constexpr int kCalls = 20;  // of `meanwhile`

NetworkOptions Device(int seed) {
  return {.backend = "cudnn", .device = seed, .plugin_dir = FakeDir("queued_device")};
}
const NetworkOptions kHost = {.backend = "reference"};

// Every step has its own batch, so that a step on a wrong batch gives other numbers.
std::vector<Problem> Problems() {
  std::vector<Problem> problems;
  for (int step = 0; step < kSteps; ++step) {
    Problem& problem = problems.emplace_back(MakeProblem({1, 8, 8, 4}, 6));
    for (float& pixel : problem.images) pixel += 0.1f * static_cast<float>(step);
    std::rotate(problem.labels.begin(), problem.labels.begin() + step % 6, problem.labels.end());
  }
  return problems;
}

// The losses and weights of some steps of plain descent. With `ahead` each step gets the next batch
// in advance, and the original is overwritten afterwards.
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
    const auto result =
        network->TrainStep(batch(step), step, keep, {.next = more ? &next : nullptr});
    EXPECT_TRUE(result.ok()) << result.status();
    made.push_back(static_cast<float>(result->loss_sum));
    for (size_t i = 0; i < gradients.size(); ++i) {
      const std::span<float> weights = network->parameter(static_cast<int>(i));
      EXPECT_EQ(weights.size(), gradients[i].size());
      for (size_t k = 0; k < weights.size(); ++k) weights[k] -= kRate * gradients[i][k];
    }
    network->InvalidateParameters();
    if (more) problems[step + 1].images.assign(problems[step + 1].images.size(), 1e9f);
    if (more) problems[0] = Problems()[0];  // for evaluations
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
  const auto found = FindInPlugin("cudnn", FakeDir("queued_device"), "psgd_queued_device_faults");
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

std::unique_ptr<Replicas> ThreeReplicas(const std::vector<NetworkOptions>& options) {
  auto replicas = Replicas::Create(ZooModel("mlp"), {1, 8, 8, 4}, 6, options).value();
  for (int i = 0; i < replicas->spec().parameters_size(); ++i) {
    int k = i;
    for (float& weight : replicas->parameter(i)) {
      weight = 0.01f * static_cast<float>(++k * 37 % 19 - 9);
    }
  }
  replicas->InvalidateParameters();
  return replicas;
}

TEST(QueuedDevice, ReplicasTrainAsThoseOfTheHostDo) {
  const std::vector<float> expected =
      Train(ThreeReplicas({kHost, kHost, kHost}).get(), false, false);
  for (int seed = 0; seed < kSeeds; ++seed) {
    const auto replicas = ThreeReplicas({Device(seed), Device(seed + 1), Device(seed + 2)});
    EXPECT_EQ(Train(replicas.get(), true, false), expected) << "seed " << seed;
  }
}

absl::Status Stage(Network* network) { return network->StageParameters(*network); }
absl::Status Stage(Replicas* replicas) { return replicas->StageParameters(); }

// Trains on weights that lack the gradient of the previous step, as a worker that pulls ahead. A
// thread writes them while a step computes, but in the steps of `late` after the step. During a
// step codecs see the weights of this step. `came` counts steps during which weights came; null:
// weights always come between steps.
template <typename Net>
std::vector<float> TrainOnWeightsAhead(Net* network, int late, int* came) {
  std::vector<Problem> problems = Problems();
  const int parameters = network->spec().parameters_size();
  std::vector<std::vector<float>> weights(parameters), earlier(parameters);
  for (int i = 0; i < parameters; ++i) {
    weights[i].assign(network->parameter(i).begin(), network->parameter(i).end());
    earlier[i].resize(network->gradient(i).size());
  }
  std::vector<float> made;
  for (int step = 0; step < 2 * kSteps; ++step) {
    const Problem& problem = problems[step % kSteps];
    std::vector<std::vector<float>> gradients(parameters);
    const auto keep = [&](int i) {
      gradients[i].assign(network->gradient(i).begin(), network->gradient(i).end());
      made.insert(made.end(), network->parameter(i).begin(), network->parameter(i).end());
    };
    for (int i = 0; i < parameters; ++i) {
      for (size_t k = 0; k < weights[i].size(); ++k) weights[i][k] -= kRate * earlier[i][k];
    }
    std::future<absl::Status> brought;
    const auto bring = [&] {
      brought = std::async(std::launch::async, [&] {
        for (int i = 0; i < parameters; ++i) {
          std::ranges::copy(weights[i], network->next_parameter(i).begin());
        }
        return Stage(network);
      });
    };
    const bool ahead = came != nullptr && step != late;
    int calls = 0;
    const auto meanwhile = [&] {
      if (++calls == 1 + step % 3 && ahead) bring();
      // The copy ends early or late, and the device goes on while the host polls.
      if (brought.valid() && step % 2 == 0) brought.wait();
      return calls < kCalls;
    };
    const auto result =
        network->TrainStep({problem.input(), problem.labels}, step, keep, {.meanwhile = meanwhile});
    EXPECT_TRUE(result.ok()) << result.status();
    made.push_back(static_cast<float>(result->loss_sum));
    earlier = gradients;
    if (brought.valid()) {
      EXPECT_TRUE(brought.get().ok());
      network->TakeStagedParameters();
      ++*came;
    } else {
      for (int i = 0; i < parameters; ++i)
        std::ranges::copy(weights[i], network->parameter(i).begin());
      network->InvalidateParameters();
    }
    if (step % 4 != 1) continue;
    const auto evaluated = network->Evaluate(problem.input(), problem.labels);
    EXPECT_TRUE(evaluated.ok()) << evaluated.status();
    made.push_back(static_cast<float>(evaluated->loss_sum));
  }
  for (int i = 0; i < parameters; ++i) {
    made.insert(made.end(), network->parameter(i).begin(), network->parameter(i).end());
  }
  return made;
}

TEST(QueuedDevice, WeightsThatComeWhileAStepComputesAreThoseThatComeBetweenSteps) {
  const Problem problem = MakeProblem({1, 8, 8, 4}, 6);
  for (const char* model : {"mlp", "cnn"}) {
    const auto host = MakeNetwork(ZooModel(model, 0.25), problem, kHost);
    const std::vector<float> expected = TrainOnWeightsAhead(host.get(), kNever, nullptr);
    int came = 0;
    for (int seed = 0; seed < kSeeds; ++seed) {
      const auto network = MakeNetwork(ZooModel(model, 0.25), problem, Device(seed));
      const absl::Status room = network->MakeRoomAhead(/*on_host=*/true);
      ASSERT_TRUE(room.ok()) << room;
      EXPECT_EQ(TrainOnWeightsAhead(network.get(), seed % kSteps, &came), expected)
          << model << ", seed " << seed;
      EXPECT_TRUE(network->recorded().ok()) << network->recorded();
    }
    // Now and then a quick device leaves no time for the copy.
    EXPECT_GT(came, kSeeds * kSteps);
  }
}

TEST(QueuedDevice, WeightsComeToAllReplicasWhileTheyCompute) {
  const std::vector<float> expected =
      TrainOnWeightsAhead(ThreeReplicas({kHost, kHost, kHost}).get(), kNever, nullptr);
  int came = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const auto replicas = ThreeReplicas({Device(seed), Device(seed + 1), Device(seed + 2)});
    const absl::Status room = replicas->MakeRoomAhead();
    ASSERT_TRUE(room.ok()) << room;
    EXPECT_EQ(TrainOnWeightsAhead(replicas.get(), seed % kSteps, &came), expected)
        << "seed " << seed;
  }
  EXPECT_GT(came, kSeeds * kSteps);
  EXPECT_TRUE(absl::IsUnimplemented(ThreeReplicas({kHost, kHost, kHost})->MakeRoomAhead()));
}

TEST(QueuedDevice, ABatchAheadThatDoesNotFitIsAnError) {
  const Problem problem = MakeProblem({1, 8, 8, 4}, 6);
  const auto network = MakeNetwork(ZooModel("mlp"), problem, Device(1));
  std::vector<int32_t> labels = problem.labels;
  labels[2] = 4;
  const StepBatch next = {problem.input(), labels};
  const auto result =
      network->TrainStep({problem.input(), problem.labels}, 0, nullptr, {.next = &next});
  EXPECT_THAT(result.status().ToString(), ::testing::HasSubstr("label 4 of sample 2"));
}

TEST(QueuedDevice, AHostTakesNoBatchesAhead) {
  const Problem problem = MakeProblem({1, 8, 8, 4}, 6);
  EXPECT_FALSE(MakeNetwork(ZooModel("mlp"), problem, kHost)->stages());
}

}  // namespace
}  // namespace psgd
