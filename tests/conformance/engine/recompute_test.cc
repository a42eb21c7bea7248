// Networks that compute activations again have the same bits in loss and gradients as networks that
// keep them.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/graph/recompute.h"
#include "engine/runtime/memory_report.h"
#include "tests/folders.h"
#include "tests/unit/engine/network_fixture.h"

namespace psgd {
namespace {

using testing::Descend;
using testing::MakeNetwork;
using testing::MakeProblem;
using testing::MakeTokenProblem;
using testing::Problem;
using testing::SequenceModel;
using testing::ZooModel;

struct RecomputeCase {
  const char* backend;
  const char* model;
  int segments;
};

void PrintTo(const RecomputeCase& test, std::ostream* out) { *out << test.model; }

ModelConfig Model(const std::string& name) {
  const bool sequence = name == "gpt" || name == "lstm_lm";
  ModelConfig model = sequence ? SequenceModel(name, 0.25) : ZooModel(name, 0.25);
  if (name == "gpt") model.set_layers(4);
  return model;
}

Problem ProblemOf(const std::string& name) {
  if (name == "gpt" || name == "lstm_lm") return MakeTokenProblem(13, 17, 5);
  if (name != "unet") return MakeProblem({3, 16, 16, 4}, 4);
  Problem problem = MakeProblem({1, 16, 16, 3}, 1);
  problem.labels.resize(16 * 16);
  for (size_t i = 0; i < problem.labels.size(); ++i) problem.labels[i] = static_cast<int>(i % 3);
  return problem;
}

class RecomputeConformanceTest : public ::testing::TestWithParam<RecomputeCase> {};

TEST_P(RecomputeConformanceTest, GivesTheSameBits) {
  const auto& [backend, name, segments] = GetParam();
  const Problem problem = ProblemOf(name);
  ModelConfig model = Model(name);
  const NetworkOptions options = {.backend = backend, .plugin_dir = PluginDir()};
  const auto plain = Network::Create(model, problem.shape, problem.batch, options);
  if (absl::IsNotFound(plain.status()) || absl::IsFailedPrecondition(plain.status()) ||
      absl::IsUnavailable(plain.status())) {
    GTEST_SKIP() << plain.status();
  }
  const auto keeps = MakeNetwork(model, problem, options);
  model.set_recompute(segments);
  const auto again = MakeNetwork(model, problem, options);
  ASSERT_TRUE(keeps != nullptr && again != nullptr);
  // Descend adds every gradient and every change of running statistics to the parameters.
  for (uint64_t step = 0; step < 2; ++step) {
    EXPECT_EQ(Descend(keeps.get(), problem, step, 0.02f),
              Descend(again.get(), problem, step, 0.02f));
    for (int i = 0; i < keeps->spec().parameters_size(); ++i) {
      const auto left = keeps->gradient(i), right = again->gradient(i);
      ASSERT_TRUE(std::equal(left.begin(), left.end(), right.begin()))
          << keeps->spec().parameters(i).name() << ", step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RecomputeConformanceTest,
                         ::testing::Values(RecomputeCase{"reference", "cnn", kRecomputeAuto},
                                           RecomputeCase{"reference", "resnet20", kRecomputeAuto},
                                           RecomputeCase{"reference", "gpt", kRecomputeAuto},
                                           RecomputeCase{"reference", "gpt", 3},
                                           RecomputeCase{"reference", "lstm_lm", kRecomputeAuto},
                                           RecomputeCase{"onednn", "cnn", kRecomputeAuto},
                                           RecomputeCase{"onednn", "cnn", 2},
                                           RecomputeCase{"onednn", "resnet20", kRecomputeAuto},
                                           RecomputeCase{"onednn", "resnet20", 3},
                                           RecomputeCase{"onednn", "googlenet", kRecomputeAuto},
                                           RecomputeCase{"onednn", "gpt", kRecomputeAuto},
                                           RecomputeCase{"onednn", "gpt", 3},
                                           RecomputeCase{"onednn", "lstm_lm", kRecomputeAuto},
                                           RecomputeCase{"onednn", "unet", kRecomputeAuto},
                                           RecomputeCase{"cudnn", "cnn", kRecomputeAuto},
                                           RecomputeCase{"cudnn", "resnet20", 3},
                                           RecomputeCase{"cudnn", "gpt", kRecomputeAuto},
                                           RecomputeCase{"cudnn", "lstm_lm", kRecomputeAuto}),
                         [](const auto& info) {
                           const RecomputeCase& test = info.param;
                           return std::string(test.backend) + "_" + test.model + "_" +
                                  (test.segments < 0 ? "auto" : std::to_string(test.segments));
                         });

// onednn's own memory, copies in other layouts and scratch, does not undo the savings.
TEST(RecomputeTest, DeepNetworksOnOnednnTakeAFractionOfTheMemory) {
  const NetworkOptions options = {.backend = "onednn", .plugin_dir = PluginDir()};
  const SampleShape image = {3, 32, 32, 10};
  ModelConfig model = ZooModel("resnet110");
  const auto keeps = PlanMemory(model, image, 16, options);
  if (absl::IsNotFound(keeps.status())) GTEST_SKIP() << keeps.status();
  ASSERT_TRUE(keeps.ok()) << keeps.status();
  model.set_recompute(kRecomputeAuto);
  const auto again = PlanMemory(model, image, 16, options);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_LT(again->step * 4, keeps->step);
  const size_t available = size_t{256} << 20;
  EXPECT_GT(*LargestBatch(model, image, options, available),
            3 * *LargestBatch(ZooModel("resnet110"), image, options, available));
}

}  // namespace
}  // namespace psgd
