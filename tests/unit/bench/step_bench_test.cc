#include "bench/step_bench.h"

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd {
namespace {

using ::testing::HasSubstr;

StepBenchOptions OptionsFor(const char* model, const InputShape& shape) {
  StepBenchOptions options = {
      .model = {}, .shape = shape, .batch = 2, .backend = "reference", .seconds = 0};
  options.model.set_zoo(model);
  if (shape.IsSequence()) {
    options.model.set_layers(1);
    options.model.set_width(8);
    options.model.set_heads(2);
  }
  return options;
}

TEST(StepBench, EveryKindOfSampleIsTaken) {
  const std::pair<const char*, InputShape> cases[] = {
      {"mlp", {1, 4, 4, 10}},
      {"gpt", {.classes = 7, .length = 5, .vocabulary = 7}},
      // Only the target has labels. As for unet, whose labels are per pixel, the network says how
      // many there are.
      {"transformer", {.classes = 7, .length = 8, .source = 4, .vocabulary = 7}},
      {"ncf", {.classes = 2, .entries = 2, .vocabulary = 20}},
      {"logistic_regression", {.classes = 2, .entries = 3, .vocabulary = 20}},
  };
  for (const auto& [model, shape] : cases) {
    const auto row = RunStepBench(OptionsFor(model, shape));
    ASSERT_TRUE(row.ok()) << model << ": " << row.status();
    EXPECT_TRUE(row->verified) << model;
    EXPECT_GT(row->extra.at("samples_per_second"), 0) << model;
  }
}

// On a device each step gets its batch from the step before, and steps are replayed.
TEST(StepBench, ADeviceReplaysItsSteps) {
  StepBenchOptions options = OptionsFor("mlp", {1, 4, 4, 10});
  options.backend = "cudnn";
  options.plugin_dir = PSGD_QUEUED_DEVICE_DIR;
  const auto row = RunStepBench(options);
  ASSERT_TRUE(row.ok()) << row.status();
  EXPECT_TRUE(row->verified);
  EXPECT_EQ(row->extra.at("recorded"), 1);
  options.backend = "reference";
  EXPECT_EQ(RunStepBench(options)->extra.count("recorded"), 0u) << "nothing is recorded on a host";
}

TEST(StepBench, AnErrorOfTheCheckSaysSo) {
  const auto row = RunStepBench(OptionsFor("transformer", {1, 28, 28, 10}));
  EXPECT_THAT(row.status().ToString(), HasSubstr("in the check against the reference"));
}

}  // namespace
}  // namespace psgd
