// GPUs of a node add up gradients themselves, as the host would. It takes GPUs with NCCL between
// them; the emulation has three.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/runtime/plugin.h"
#include "engine/runtime/replicas.h"
#include "tests/folders.h"
#include "tests/unit/engine/low_rank_model.h"
#include "tests/unit/engine/network_fixture.h"

namespace psgd {
namespace {

using testing::MakeProblem;
using testing::Problem;
using testing::ZooModel;
using Gradients = std::vector<std::vector<float>>;  // by parameter

class GroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::Status found;
    while (found.ok() && devices_ < kMost) {
      BackendOptions options;
      options.device = devices_;
      found = LoadBackend("cudnn", PluginDir(), options).status();
      devices_ += found.ok();
    }
    if (devices_ < 2) GTEST_SKIP() << "a group takes two GPUs: " << found;
  }

  static std::unique_ptr<Replicas> Make(const ModelConfig& model, const Problem& problem, int count,
                                        const NetworkOptions& options, ReduceOn reduce) {
    std::vector<NetworkOptions> each(static_cast<size_t>(count), options);
    for (int i = 0; i < count; ++i) each[static_cast<size_t>(i)].device = i;
    auto replicas = Replicas::Create(model, problem.shape, problem.batch, each, reduce);
    EXPECT_TRUE(replicas.ok()) << replicas.status();
    if (!replicas.ok()) return nullptr;
    for (int i = 0; i < (*replicas)->spec().parameters_size(); ++i) {
      FillInitial((*replicas)->spec().parameters(i), 1, i, 0, (*replicas)->parameter(i));
    }
    (*replicas)->InvalidateParameters();
    return *std::move(replicas);
  }
  std::unique_ptr<Replicas> MakeGroup(const ModelConfig& model, const Problem& problem,
                                      int count) const {
    return Make(model, problem, count, options_, ReduceOn::kDevices);
  }

  static Gradients Step(Replicas* replicas, const Problem& problem, uint64_t step) {
    Gradients gradients(static_cast<size_t>(replicas->spec().parameters_size()));
    const auto keep = [&](int i) {
      const std::span<const float> gradient = replicas->gradient(i);
      gradients[static_cast<size_t>(i)].assign(gradient.begin(), gradient.end());
    };
    const auto result = replicas->TrainStep(problem.input(), problem.labels, step, keep);
    EXPECT_TRUE(result.ok()) << result.status();
    return gradients;
  }
  // A step of gradient descent by these gradients.
  static void Move(Replicas* replicas, const Gradients& gradients) {
    for (int i = 0; i < replicas->spec().parameters_size(); ++i) {
      const bool statistic = replicas->spec().parameters(i).role() == ParameterSpec::STATISTIC;
      const std::vector<float>& gradient = gradients[static_cast<size_t>(i)];
      float* const parameter = replicas->parameter(i).data();
      for (size_t k = 0; k < gradient.size(); ++k) {
        parameter[k] += (statistic ? 1.0f : -0.02f) * gradient[k];
      }
    }
    replicas->InvalidateParameters();
  }
  static void ExpectNear(const Gradients& made, const Gradients& expected, double bound) {
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(made[i].size(), expected[i].size());
      double apart = 0, length = 0;
      for (size_t k = 0; k < expected[i].size(); ++k) {
        apart += std::pow(made[i][k] - expected[i][k], 2);
        length += std::pow(expected[i][k], 2);
      }
      EXPECT_LE(std::sqrt(apart), bound * std::sqrt(length) + 1e-7) << "parameter " << i;
    }
  }

  static constexpr int kMost = 3;
  int devices_ = 0;
  const NetworkOptions options_ = {.backend = "cudnn", .plugin_dir = PluginDir()};
};

// The first step is launched, later ones are replayed. Labels that do not count give the replicas
// unequal shares, and others in each step.
TEST_F(GroupTest, AddsUpWhatTheHostWould) {
  for (const std::string model : {"mlp", "cnn"}) {
    for (int count = model == "mlp" ? 2 : devices_; count <= devices_; ++count) {
      SCOPED_TRACE(::testing::Message() << model << " on " << count);
      Problem problem = MakeProblem();
      const auto group = MakeGroup(ZooModel(model), problem, count);
      const auto on_host = Make(ZooModel(model), problem, count, options_, ReduceOn::kHost);
      const auto reference =
          Make(ZooModel(model), problem, count, testing::kReference, ReduceOn::kDevices);
      ASSERT_TRUE(group && on_host && reference);
      for (uint64_t step = 0; step < 5; ++step) {
        problem.labels[problem.labels.size() - 1 - step] = -1;
        const Gradients made = Step(group.get(), problem, step);
        ExpectNear(made, Step(on_host.get(), problem, step), 1e-6);
        ExpectNear(made, Step(reference.get(), problem, step), 1e-4);
        for (Replicas* each : {group.get(), on_host.get(), reference.get()}) Move(each, made);
      }
      EXPECT_TRUE(group->recorded().ok()) << group->recorded();
    }
  }
}

// Each bucket is added up while kernels make the gradients of the next.
TEST_F(GroupTest, AddsUpBucketsBesideTheBackwardPass) {
  ModelConfig model = ZooModel("mlp");
  for (int i = 0; i < 2; ++i) model.add_hidden(2600);  // one bucket is full, the last is not
  const Problem problem = MakeProblem({1, 16, 16, 4}, 2);
  const auto group = MakeGroup(model, problem, 2);
  const auto on_host = Make(model, problem, 2, options_, ReduceOn::kHost);
  ASSERT_TRUE(group && on_host);
  for (uint64_t step = 0; step < 4; ++step) {
    const Gradients made = Step(group.get(), problem, step);
    ExpectNear(made, Step(on_host.get(), problem, step), 1e-6);
    for (Replicas* each : {group.get(), on_host.get()}) Move(each, made);
  }
  EXPECT_TRUE(group->recorded().ok()) << group->recorded();
}

// Kernels read the gradient of the first bucket.
TEST_F(GroupTest, AddsUpABucketAfterTheKernelsThatReadIt) {
  const Problem problem = MakeProblem(testing::kLowRankShape);
  const ModelConfig model = testing::WriteLowRankModel();
  const auto group = MakeGroup(model, problem, 2);
  const auto on_host = Make(model, problem, 2, options_, ReduceOn::kHost);
  std::filesystem::remove(model.onnx());
  ASSERT_TRUE(group && on_host);
  for (Replicas* each : {group.get(), on_host.get()}) testing::FillLowRankModel(each);
  for (uint64_t step = 0; step < 3; ++step) {
    ExpectNear(Step(group.get(), problem, step), Step(on_host.get(), problem, step), 1e-6);
  }
}

TEST_F(GroupTest, StepsRepeatTheirBitsLaunchedOrReplayed) {
  const Problem problem = MakeProblem();
  Gradients first;
  for (int run = 0; run < 2; ++run) {
    const auto group = MakeGroup(ZooModel("cnn"), problem, devices_);
    ASSERT_TRUE(group);
    for (uint64_t step = 0; step < 4; ++step) {
      const Gradients made = Step(group.get(), problem, step);
      if (first.empty()) first = made;
      EXPECT_TRUE(made == first) << "run " << run << ", step " << step;
    }
  }
}

// The optimizer reads the sums on the device, after kernels that ran beside them.
TEST_F(GroupTest, TheFirstDeviceUpdatesByTheSums) {
  const Problem problem = MakeProblem();
  const auto group = MakeGroup(ZooModel("mlp"), problem, 2);
  const auto on_host = Make(ZooModel("mlp"), problem, 2, options_, ReduceOn::kHost);
  ASSERT_TRUE(group && on_host);
  Network* const first = group->device_network();
  ASSERT_NE(first, nullptr);
  const auto parameters = static_cast<size_t>(group->spec().parameters_size());
  first->KeepOnDevice(std::vector<bool>(parameters, true),
                      [](int, const DeviceGradient&) { return absl::OkStatus(); });
  ASSERT_TRUE(first->KeepStates(0, /*orthogonal=*/false).ok());
  const std::vector<ElementUpdate> updates(parameters,
                                           {.kind = ElementUpdate::Kind::kSgd, .rate = 1});
  for (uint64_t step = 0; step < 3; ++step) {
    Gradients moved(parameters);
    for (size_t i = 0; i < parameters; ++i) {
      const std::span<const float> before = group->parameter(static_cast<int>(i));
      moved[i].assign(before.begin(), before.end());
    }
    ASSERT_TRUE(group->TrainStep(problem.step_batch(), step, nullptr).ok());
    ASSERT_TRUE(first->UpdateParameters(updates, {}).ok());
    ASSERT_TRUE(first->FetchParameters().ok());
    const Gradients expected = Step(on_host.get(), problem, step);
    for (size_t i = 0; i < parameters; ++i) {
      const std::span<const float> after = group->parameter(static_cast<int>(i));
      for (size_t k = 0; k < after.size(); ++k) moved[i][k] -= after[k];
      std::ranges::copy(after, on_host->parameter(static_cast<int>(i)).begin());
    }
    ExpectNear(moved, expected, 1e-4);
    group->InvalidateParameters();
    on_host->InvalidateParameters();
  }
}

TEST_F(GroupTest, OneThatFailsLeavesNobodyWaiting) {
  const Problem problem = MakeProblem();
  for (const uint64_t sound : {0u, 1u, 3u}) {  // steps before that of the bad label
    for (const size_t bad : {0u, 11u}) {
      const auto group = MakeGroup(ZooModel("mlp"), problem, devices_);
      ASSERT_TRUE(group);
      for (uint64_t step = 0; step < sound; ++step) Step(group.get(), problem, step);
      std::vector<int32_t> labels = problem.labels;
      labels[bad] = 4;
      int handed_on = 0;
      const auto result =
          group->TrainStep(problem.input(), labels, sound, [&](int) { ++handed_on; });
      EXPECT_TRUE(absl::IsInvalidArgument(result.status())) << result.status();
      EXPECT_EQ(handed_on, 0);
      const auto next = group->TrainStep(problem.input(), problem.labels, sound + 1, nullptr);
      EXPECT_TRUE(absl::IsAborted(next.status())) << next.status();
    }
  }
}

TEST_F(GroupTest, ADeviceIsInAGroupOnce) {
  NetworkOptions options = options_;
  const std::vector<NetworkOptions> twice(2, options);
  EXPECT_TRUE(absl::IsInvalidArgument(CheckDevicesMeet(twice))) << CheckDevicesMeet(twice);
  options.device = 1;
  EXPECT_TRUE(CheckDevicesMeet({options_, options}).ok());
}

}  // namespace
}  // namespace psgd
