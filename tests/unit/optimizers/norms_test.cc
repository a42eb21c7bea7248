// The norms of slices, and what lars and lamb do with them.
#include "optimizers/norms.h"

#include <gtest/gtest.h>

#include <hwy/highway.h>
#include <algorithm>
#include <cmath>
#include <vector>

#include "common/philox.h"
#include "optimizers/kernels.h"
#include "optimizers/optimizer.h"

namespace psgd {
namespace {

// Magnitudes differ so much that another order would round otherwise.
std::vector<float> Values(size_t size) {
  RandomStream random(MakeKey(11, RandomPurpose::kSynthetic), 0);
  std::vector<float> values(size);
  for (float& value : values) {
    value = std::ldexp(random.NextUnit() - 0.5f, static_cast<int>(random.NextBelow(40)));
  }
  return values;
}

TEST(NormsTest, SumsAreOfEverySixteenthOnEveryInstructionSet) {
  for (const size_t size : {1, 15, 16, 33, 5003}) {
    const auto values = Values(size);
    SquareSums expected;
    for (size_t i = 0; i < size; ++i) {
      expected.sums[i % SquareSums::kSums] += double{values[i]} * double{values[i]};
    }
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      SquareSums at_once, in_parts;
      AddSquares(values.data(), size, &at_once);
      for (size_t begin = 0; begin < size; begin += kStretch) {
        AddSquares(values.data() + begin, std::min(kStretch, size - begin), &in_parts);
      }
      for (size_t i = 0; i < SquareSums::kSums; ++i) {
        ASSERT_EQ(at_once.sums[i], expected.sums[i]) << size << " on " << hwy::TargetName(target);
        ASSERT_EQ(in_parts.sums[i], expected.sums[i]) << size << " on " << hwy::TargetName(target);
      }
    }
    hwy::SetSupportedTargetsForTest(0);
  }
}

// The first update of a slice of these weights.
std::vector<float> Updated(const OptimizerConfig& config, std::vector<float> weights,
                           const std::vector<float>& gradient, const OptimizerStep& step) {
  std::vector<std::vector<float>> states(kMaxStateArrays, std::vector<float>(weights.size()));
  OptimizerBlock slice;
  slice.size = weights.size();
  slice.gradient = gradient.data();
  slice.weights_in = slice.weights_out = weights.data();
  for (int i = 0; i < kMaxStateArrays; ++i) {
    slice.state_in[i] = slice.state_out[i] = states[i].data();
  }
  const auto optimizer = MakeOptimizer(config);
  EXPECT_TRUE(optimizer->whole_slices());
  optimizer->ApplyBlock(step, slice);
  return weights;
}

OptimizerConfig Lars() {
  OptimizerConfig config;
  config.mutable_lars()->set_trust(0.5);
  return config;
}

OptimizerConfig Lamb() {
  OptimizerConfig config;
  config.mutable_lamb();
  return config;
}

TEST(NormsTest, LarsMovesBySharesOfTheWeightsNorm) {
  // Norms 5 and 10: the ratio is 0.5 * 5 / 10.
  EXPECT_EQ(Updated(Lars(), {3, 4}, {8, -6}, {.learning_rate = 1}), (std::vector<float>{1, 5.5}));
  EXPECT_EQ(Updated(Lars(), {3, 4}, {8, -6}, {.learning_rate = 1, .decays = false}),
            (std::vector<float>{-5, 10}))
      << "biases do not adapt";
}

TEST(NormsTest, LambMovesByTheWeightsNorm) {
  // In the first update r is the sign of the gradient, so its norm is sqrt(2).
  const auto adapted = Updated(Lamb(), {3, 4}, {8, -6}, {.learning_rate = 0.1});
  EXPECT_NEAR(adapted[0], 3 - 0.5 / std::sqrt(2), 1e-5);
  EXPECT_NEAR(adapted[1], 4 + 0.5 / std::sqrt(2), 1e-5);
  const auto bias = Updated(Lamb(), {3, 4}, {8, -6}, {.learning_rate = 0.1, .decays = false});
  EXPECT_NEAR(bias[0], 2.9, 1e-5);
  EXPECT_NEAR(bias[1], 4.1, 1e-5);
  // With a decay of 1: r = (4, 3).
  const auto decayed = Updated(Lamb(), {3, 4}, {8, -6}, {.learning_rate = 0.1, .weight_decay = 1});
  EXPECT_NEAR(decayed[0], 3 - 0.1 * 4, 1e-5);
  EXPECT_NEAR(decayed[1], 4 - 0.1 * 3, 1e-5);
}

TEST(NormsTest, ZerosDoNotAdapt) {
  EXPECT_EQ(Updated(Lars(), {0, 0}, {8, -6}, {.learning_rate = 1}), (std::vector<float>{-8, 6}));
  EXPECT_EQ(Updated(Lars(), {3, 4}, {0, 0}, {.learning_rate = 1}), (std::vector<float>{3, 4}));
  EXPECT_NEAR(Updated(Lamb(), {0, 0}, {8, -6}, {.learning_rate = 0.5})[0], -0.5, 1e-5);
  EXPECT_EQ(Updated(Lamb(), {3, 4}, {0, 0}, {.learning_rate = 1}), (std::vector<float>{3, 4}));
}

// |weights| / |gradient| is beyond the largest float.
TEST(NormsTest, TinyGradientsMoveNothingFar) {
  const auto weights = Updated(Lars(), {3, 4}, {1e-40f, 0}, {.learning_rate = 1});
  EXPECT_NEAR(weights[0], 3, 0.1);
  EXPECT_EQ(weights[1], 4);
}

}  // namespace
}  // namespace psgd
