#include "optimizers/schedule.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace psgd {
namespace {

// A run of 10 epochs of 8 steps.
constexpr double kStepsPerEpoch = 8;
constexpr double kEpochs = 10;

ScheduleConfig Parse(const std::string& text) {
  ScheduleConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config)) << text;
  return config;
}

double At(const ScheduleConfig& config, uint64_t step) {
  return ScheduleFactor(config, {.epoch = static_cast<double>(step) / kStepsPerEpoch,
                                 .step = step,
                                 .epochs_per_step = 1 / kStepsPerEpoch,
                                 .total_epochs = kEpochs});
}
double At(const std::string& text, uint64_t step) { return At(Parse(text), step); }

TEST(ScheduleTest, ConstantAndUnsetAreOne) {
  EXPECT_EQ(At("", 0), 1);
  EXPECT_EQ(At("constant {}", 79), 1);
}

TEST(ScheduleTest, WarmsUpInAStraightLineFromTheFirstStep) {
  for (const char* text : {"warmup { epochs: 1 }", "warmup { steps: 8 }"}) {
    EXPECT_DOUBLE_EQ(At(text, 0), 1.0 / 8) << text;
    EXPECT_DOUBLE_EQ(At(text, 3), 4.0 / 8) << text;
    EXPECT_DOUBLE_EQ(At(text, 7), 1) << text;
    EXPECT_DOUBLE_EQ(At(text, 8), 1) << text;
    EXPECT_DOUBLE_EQ(At(text, 79), 1) << text;
  }
  EXPECT_EQ(At("warmup { steps: 0 }", 0), 1);
  EXPECT_EQ(At("warmup { epochs: 0 }", 0), 1);
}

TEST(ScheduleTest, StepFallsAtEachWholeLength) {
  for (const char* text :
       {"step { every { epochs: 2 } factor: 0.5 }", "step { every { steps: 16 } factor: 0.5 }"}) {
    EXPECT_EQ(At(text, 0), 1) << text;
    EXPECT_EQ(At(text, 15), 1) << text;
    EXPECT_EQ(At(text, 16), 0.5) << text;
    EXPECT_EQ(At(text, 31), 0.5) << text;
    EXPECT_EQ(At(text, 32), 0.25) << text;
    EXPECT_EQ(At(text, 79), 0.0625) << text;
  }
}

TEST(ScheduleTest, StepBoundariesSurviveRounding) {
  // 469 steps per epoch: the sum of the fractions misses whole numbers by some ulps.
  const ScheduleConfig config = Parse("step { every { epochs: 1 } factor: 0.5 }");
  double epoch = 0;
  for (uint64_t step = 0; step < 469 * 5; ++step) {
    const double expected = std::ldexp(1.0, -static_cast<int>(step / 469));
    ASSERT_EQ(ScheduleFactor(
                  config,
                  {.epoch = epoch, .step = step, .epochs_per_step = 1 / 469.0, .total_epochs = 5}),
              expected)
        << step;
    epoch += 1 / 469.0;
  }
}

TEST(ScheduleTest, MultistepCountsThePointsReached) {
  for (const char* text : {"multistep { at { epochs: 2 } at { epochs: 5 } factor: 0.1 }",
                           "multistep { at { steps: 16 } at { epochs: 5 } factor: 0.1 }"}) {
    EXPECT_EQ(At(text, 15), 1) << text;
    EXPECT_DOUBLE_EQ(At(text, 16), 0.1) << text;
    EXPECT_DOUBLE_EQ(At(text, 39), 0.1) << text;
    EXPECT_DOUBLE_EQ(At(text, 40), 0.01) << text;
  }
}

TEST(ScheduleTest, CosineRunsFromTheWarmupToTheFloor) {
  EXPECT_DOUBLE_EQ(At("cosine {}", 0), 1);
  EXPECT_DOUBLE_EQ(At("cosine {}", 40), 0.5);
  EXPECT_NEAR(At("cosine {}", 80), 0, 1e-15);
  EXPECT_NEAR(At("cosine { floor: 0.2 }", 80), 0.2, 1e-15);
  EXPECT_NEAR(At("cosine { floor: 0.2 }", 1000), 0.2, 1e-15) << "past the end it stays";
  for (uint64_t step = 0; step <= 80; ++step) {
    ASSERT_NEAR(At("cosine {}", step), (1 + std::cos(M_PI * static_cast<double>(step) / 80)) / 2,
                1e-14);
  }
  for (const char* text : {"warmup { epochs: 2 } cosine {}", "warmup { steps: 16 } cosine {}"}) {
    EXPECT_DOUBLE_EQ(At(text, 7), 0.5) << text;
    EXPECT_DOUBLE_EQ(At(text, 16), 1) << text;
    EXPECT_DOUBLE_EQ(At(text, 48), 0.5) << text;
  }
}

TEST(ScheduleTest, LinearRunsFromTheWarmupToTheFloor) {
  EXPECT_DOUBLE_EQ(At("linear {}", 0), 1);
  EXPECT_DOUBLE_EQ(At("linear {}", 20), 0.75);
  EXPECT_DOUBLE_EQ(At("linear {}", 80), 0);
  EXPECT_DOUBLE_EQ(At("linear { floor: 0.5 }", 40), 0.75);
  EXPECT_DOUBLE_EQ(At("warmup { epochs: 2 } linear {}", 16), 1);
  EXPECT_DOUBLE_EQ(At("warmup { epochs: 2 } linear {}", 48), 0.5);
}

TEST(ScheduleTest, DegenerateLengthsStayFinite) {
  for (const char* text : {"warmup { epochs: 10 } cosine {}", "warmup { epochs: 99 } linear {}",
                           "step { every { epochs: 0 } }", "step { every { steps: 0 } }", "step {}",
                           "step { every { epochs: 1e-300 } factor: 0.9 }", "multistep {}"}) {
    for (uint64_t step : {0, 1, 79, 80, 1000000}) {
      const double factor = At(text, step);
      EXPECT_TRUE(std::isfinite(factor) && factor >= 0 && factor <= 1) << text << " " << step;
    }
  }
}

// torch.optim.lr_scheduler.PolynomialLR(total_iters=80, power=1.5) of PyTorch 1.13.
TEST(ScheduleTest, PolynomialIsPyTorchs) {
  const ScheduleConfig config = Parse("polynomial { power: 1.5 }");
  EXPECT_NEAR(At(config, 0), 1, 1e-12);
  EXPECT_NEAR(At(config, 1), 0.9813087163961197, 1e-12);
  EXPECT_NEAR(At(config, 20), 0.6495190528383289, 1e-12);
  EXPECT_NEAR(At(config, 40), 0.35355339059327384, 1e-12);
  EXPECT_NEAR(At(config, 60), 0.125, 1e-12);
  EXPECT_NEAR(At(config, 79), 0.0013975424859373627, 1e-12);
}

TEST(ScheduleTest, PolynomialBeginsAfterTheWarmupAndEndsAtItsFloor) {
  const std::string text = "warmup { epochs: 2 } polynomial { power: 2 floor: 0.1 }";
  EXPECT_DOUBLE_EQ(At(text, 16), 1);
  EXPECT_NEAR(At(text, 48), 0.1 + 0.9 * 0.25, 1e-12);
  EXPECT_NEAR(At(text, 80), 0.1, 1e-12);
  EXPECT_DOUBLE_EQ(At("polynomial {}", 20), At("linear {}", 20));
}

TEST(ScheduleTest, InverseSqrtFallsFromTheEndOfTheWarmup) {
  for (const std::string warmup : {"warmup { steps: 16 }", "warmup { epochs: 2 }"}) {
    const std::string text = warmup + " inverse_sqrt {}";
    EXPECT_DOUBLE_EQ(At(text, 3), 4.0 / 16) << text;
    EXPECT_DOUBLE_EQ(At(text, 15), 1) << text;
    EXPECT_DOUBLE_EQ(At(text, 63), 0.5) << text;
  }
}

// torch.optim.lr_scheduler.OneCycleLR(max_lr=1, total_steps=80) of PyTorch 1.13.
TEST(ScheduleTest, OneCycleIsPyTorchs) {
  const ScheduleConfig config = Parse("one_cycle {}");
  EXPECT_NEAR(At(config, 0), 0.04, 1e-12);
  EXPECT_NEAR(At(config, 1), 0.04447074590256128, 1e-12);
  EXPECT_NEAR(At(config, 11), 0.4872436415849579, 1e-12);
  EXPECT_NEAR(At(config, 22), 0.9955292540974388, 1e-12);
  EXPECT_NEAR(At(config, 23), 1, 1e-12);
  EXPECT_NEAR(At(config, 24), 0.9992134106552782, 1e-12);
  EXPECT_NEAR(At(config, 50), 0.5280371114777014, 1e-12);
  EXPECT_NEAR(At(config, 78), 0.0007905893447217333, 1e-12);
  EXPECT_NEAR(At(config, 79), 4e-6, 1e-12);
}

TEST(ScheduleTest, AOneCycleOfOneStepHasNoRise) {
  EXPECT_DOUBLE_EQ(ScheduleFactor(Parse("one_cycle { floor: 0.5 }"), {.epochs_per_step = 1}), 0.5);
}

}  // namespace
}  // namespace psgd
