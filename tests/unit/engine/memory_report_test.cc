#include "engine/runtime/memory_report.h"

#include <gtest/gtest.h>

#include "tests/unit/engine/network_fixture.h"

namespace psgd {
namespace {

constexpr SampleShape kShape = {1, 28, 28, 10};

ModelConfig Lenet() {
  ModelConfig model;
  model.set_zoo("lenet5");
  return model;
}

TEST(MemoryReport, CountsEachKind) {
  const auto report = PlanMemory(Lenet(), kShape, 32, testing::kReference);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->weights, 431080u * 4);
  EXPECT_EQ(report->gradients, report->weights);
  EXPECT_EQ(report->batch, 32u * (28 * 28 + 1) * 4);
  // conv1's output lives until the backward pass.
  EXPECT_GT(report->step, 32u * 20 * 24 * 24 * 4);
  EXPECT_LT(report->step, report->step_without_reuse);
  // Activations include conv1's output. The reference needs no scratch memory.
  EXPECT_GE(report->fullest_activations, 32u * 20 * 24 * 24 * 4);
  EXPECT_EQ(report->fullest_scratch, 0u);
  EXPECT_LE(report->fullest_activations + report->fullest_gradients, report->step);
}

TEST(MemoryReport, TellsActivationsFromTheirGradients) {
  ModelConfig resnet;
  resnet.set_zoo("resnet18");
  const auto report = PlanMemory(resnet, {3, 64, 64, 10}, 4, testing::kReference);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(report->fullest_gradients, 0u);
  EXPECT_GT(report->fullest_activations, report->fullest_gradients);
}

TEST(MemoryReport, TheLargestBatchIsTheLastThatFits) {
  const size_t available = size_t{64} << 20;
  const auto largest = LargestBatch(Lenet(), kShape, testing::kReference, available);
  ASSERT_TRUE(largest.ok()) << largest.status();
  EXPECT_LE(PlanMemory(Lenet(), kShape, *largest, testing::kReference)->total(), available);
  EXPECT_GT(PlanMemory(Lenet(), kShape, *largest + *largest / 40 + 1, testing::kReference)->total(),
            available);
  EXPECT_EQ(*LargestBatch(Lenet(), kShape, testing::kReference, 1 << 20), 0);
}

// Its last images have one pixel, and batch normalization needs two values a channel.
TEST(MemoryReport, TheLargestBatchOfANetworkThatTakesNoSingleSample) {
  ModelConfig resnet;
  resnet.set_zoo("resnet18");
  const SampleShape shape = {3, 32, 32, 10};
  ASSERT_FALSE(PlanMemory(resnet, shape, 1, testing::kReference).ok());
  const auto largest = LargestBatch(resnet, shape, testing::kReference, size_t{1} << 30);
  ASSERT_TRUE(largest.ok()) << largest.status();
  EXPECT_GT(*largest, 8);
}

TEST(MemoryReport, AModelThatDoesNotFitItsDataIsAnError) {
  EXPECT_FALSE(PlanMemory(Lenet(), {1, 4, 4, 10}, 1, testing::kReference).ok());
}

}  // namespace
}  // namespace psgd
