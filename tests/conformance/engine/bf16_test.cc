// Networks that onednn computes in bf16 learn as in fp32.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/recompute.h"
#include "engine/runtime/memory_report.h"
#include "engine/runtime/plugin.h"
#include "tests/folders.h"
#include "tests/unit/engine/network_fixture.h"

namespace psgd {
namespace {

using testing::Descend;
using ::testing::HasSubstr;
using testing::MakeNetwork;
using testing::MakeProblem;
using testing::MakeTokenProblem;
using testing::Problem;
using testing::SequenceModel;
using testing::ZooModel;

class Bf16Test : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::Status status = CheckPrecision("onednn", PluginDir(), Precision::kBf16);
    if (absl::IsNotFound(status) || absl::IsFailedPrecondition(status)) GTEST_SKIP() << status;
    ASSERT_TRUE(status.ok()) << status;
  }

  // The first losses in fp32 and bf16 differ by at most `bound`. Later both networks learn, but
  // their losses drift apart.
  void Compare(const ModelConfig& model, const Problem& problem, float rate, double bound) {
    const auto fp32 = MakeNetwork(model, problem, fp32_);
    const auto bf16 = MakeNetwork(model, problem, bf16_);
    ASSERT_TRUE(fp32 != nullptr && bf16 != nullptr);
    double first = 0, expected = 0, loss = 0;
    constexpr uint64_t kSteps = 30, kCompared = 12;
    for (uint64_t step = 0; step < kSteps; ++step) {
      expected = Descend(fp32.get(), problem, step, rate);
      loss = Descend(bf16.get(), problem, step, rate);
      if (step == 0) first = loss;
      if (step >= kCompared) continue;
      EXPECT_NEAR(loss, expected, bound * first) << model.zoo() << ", step " << step;
    }
    EXPECT_LT(loss, 0.75 * first) << model.zoo();
    EXPECT_NE(loss, expected) << "bf16 has the very losses of fp32";
    // Evaluates the same weights.
    for (int i = 0; i < fp32->spec().parameters_size(); ++i) {
      std::copy(fp32->parameter(i).begin(), fp32->parameter(i).end(), bf16->parameter(i).begin());
    }
    bf16->InvalidateParameters();
    const auto evaluated = bf16->Evaluate(problem.input(), problem.labels);
    const auto wanted = fp32->Evaluate(problem.input(), problem.labels);
    ASSERT_TRUE(evaluated.ok() && wanted.ok());
    const auto counted = static_cast<double>(wanted->counted);
    EXPECT_NEAR(evaluated->loss_sum / counted, wanted->loss_sum / counted, bound * first);
  }

  const NetworkOptions fp32_ = {.backend = "onednn", .plugin_dir = PluginDir()};
  const NetworkOptions bf16_ = {
      .backend = "onednn", .precision = Precision::kBf16, .plugin_dir = PluginDir()};
};

TEST_F(Bf16Test, LossesFollowFp32) {
  const Problem images = MakeProblem({1, 28, 28, 4}, 16);
  Compare(ZooModel("lenet5"), images, 0.05f, 0.03);
  Compare(ZooModel("cnn", 0.25), images, 0.02f, 0.03);
  Compare(ZooModel("resnet20"), MakeProblem({3, 16, 16, 4}, 16), 0.02f, 0.05);
  Compare(SequenceModel("gpt"), MakeTokenProblem(13, 17, 5), 0.1f, 0.03);
}

TEST_F(Bf16Test, TheSameStepsGiveTheSameBits) {
  const Problem problem = MakeProblem({1, 16, 16, 4}, 4);
  ModelConfig model = ZooModel("cnn", 0.25);
  const auto first = MakeNetwork(model, problem, bf16_);
  const auto second = MakeNetwork(model, problem, bf16_);
  model.set_recompute(kRecomputeAuto);
  const auto recomputing = MakeNetwork(model, problem, bf16_);
  for (uint64_t step = 0; step < 3; ++step) {
    const double loss = Descend(first.get(), problem, step, 0.02f);
    EXPECT_EQ(Descend(second.get(), problem, step, 0.02f), loss);
    EXPECT_EQ(Descend(recomputing.get(), problem, step, 0.02f), loss);
  }
}

TEST_F(Bf16Test, ActivationsTakeLessMemory) {
  const SampleShape shape = {3, 32, 32, 10};
  const auto fp32 = PlanMemory(ZooModel("resnet18"), shape, 128, fp32_);
  const auto bf16 = PlanMemory(ZooModel("resnet18"), shape, 128, bf16_);
  ASSERT_TRUE(fp32.ok() && bf16.ok()) << bf16.status();
  EXPECT_LT(static_cast<double>(bf16->step), 0.8 * static_cast<double>(fp32->step));
  EXPECT_EQ(bf16->weights, fp32->weights);
}

TEST(PrecisionTest, IsRefusedWhereNothingComputesInIt) {
  const absl::Status reference = CheckPrecision("reference", "", Precision::kBf16);
  EXPECT_THAT(std::string(reference.message()), HasSubstr("fp32 alone"));
  const absl::Status tf32 = CheckPrecision("onednn", PluginDir(), Precision::kTf32);
  if (absl::IsNotFound(tf32)) GTEST_SKIP() << tf32;
  EXPECT_TRUE(absl::IsInvalidArgument(tf32)) << tf32;
  EXPECT_THAT(std::string(tf32.message()), HasSubstr("use --precision fp32 or bf16"));
}

}  // namespace
}  // namespace psgd
