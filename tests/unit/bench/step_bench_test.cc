#include "bench/step_bench.h"

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "tests/folders.h"

namespace psgd {
namespace {

using ::testing::HasSubstr;

StepBenchOptions OptionsFor(const char* model, const SampleShape& shape) {
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
  const std::pair<const char*, SampleShape> cases[] = {
      {"mlp", {1, 4, 4, 10}},
      {"gpt", {.classes = 7, .length = 5, .vocabulary = 7}},
      // Only the target has labels. As for unet, whose labels are per pixel, the network says how
      // many there are.
      {"transformer", {.classes = 7, .length = 8, .source = 4, .vocabulary = 7}},
      {"ncf", {.classes = 2, .entries = 2, .vocabulary = 20}},
      {"logistic_regression", {.classes = 2, .entries = 3, .vocabulary = 20}},
  };
  for (const auto& [model, shape] : cases) {
    const auto rows = RunStepBench(OptionsFor(model, shape));
    ASSERT_TRUE(rows.ok()) << model << ": " << rows.status();
    ASSERT_EQ(rows->size(), 1u);
    EXPECT_TRUE(rows->front().verified) << model;
    EXPECT_GT(rows->front().extra.at("samples_per_second"), 0) << model;
  }
}

// On a device each step gets its batch from the step before, and steps are replayed.
TEST(StepBench, ADeviceReplaysItsSteps) {
  StepBenchOptions options = OptionsFor("mlp", {1, 4, 4, 10});
  options.backend = "cudnn";
  options.plugin_dir = FakeDir("queued_device");
  const auto rows = RunStepBench(options);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_TRUE(rows->front().verified);
  EXPECT_EQ(rows->front().extra.at("recorded"), 1);
  options.backend = "reference";
  EXPECT_EQ(RunStepBench(options)->front().extra.count("recorded"), 0u)
      << "nothing is recorded on a host";
}

TEST(StepBench, ARooflineHasARowForEachKindOfOp) {
  StepBenchOptions options = OptionsFor("lenet5", {1, 28, 28, 10});
  options.roofline = true;
  const auto rows = RunStepBench(options);
  ASSERT_TRUE(rows.ok()) << rows.status();
  double share = 0;
  for (const BenchRow& row : *rows) {
    if (row.name == "Conv2d") {
      EXPECT_GT(row.extra.at("gflops"), 0);
    }
    if (row.bench != "roofline" || absl::StrContains(row.name, ".")) continue;
    EXPECT_GT(row.ratio, 0) << row.name;
    share += row.extra.at("share");
  }
  EXPECT_GE(share, 0.99);
}

TEST(StepBench, AnErrorOfTheCheckSaysSo) {
  const auto rows = RunStepBench(OptionsFor("transformer", {1, 28, 28, 10}));
  EXPECT_THAT(rows.status().ToString(), HasSubstr("in the check against the reference"));
}

}  // namespace
}  // namespace psgd
