#include <gtest/gtest.h>

#include <vector>

#include "optimizers/optimizer.h"

namespace psgd {
namespace {

// The weights after each of `updates` updates of one weight that is 0 at first.
std::vector<float> Weights(const Optimizer& optimizer, const std::vector<float>& gradients) {
  std::vector<float> weights;
  float weight = 0, states[kMaxStateArrays] = {};
  for (size_t t = 1; t <= gradients.size(); ++t) {
    OptimizerBlock block;
    block.size = 1;
    block.gradient = &gradients[t - 1];
    block.weights_in = block.weights_out = &weight;
    for (int i = 0; i < kMaxStateArrays; ++i) block.state_in[i] = block.state_out[i] = &states[i];
    optimizer.ApplyBlock({.learning_rate = 0.5, .step = t}, block);
    weights.push_back(weight);
  }
  return weights;
}

OptimizerConfig Delayed(double spread, int every) {
  OptimizerConfig config;
  config.mutable_delayed_nesterov()->set_spread(spread);
  config.mutable_delayed_nesterov()->set_every(every);
  return config;
}

const std::vector<float> kGradients = {1, -2, 4, 0.5, 8, -1};

TEST(DelayedNesterovTest, RenewedAtEachUpdateItIsNesterov) {
  OptimizerConfig nesterov;
  nesterov.mutable_sgd()->set_momentum(0.9);
  nesterov.mutable_sgd()->set_nesterov(true);
  const auto expected = Weights(*MakeOptimizer(nesterov), kGradients);
  EXPECT_EQ(Weights(*MakeOptimizer(Delayed(0, 1)), kGradients), expected);
  EXPECT_EQ(Weights(*MakeOptimizer(Delayed(0.25, 1)), kGradients), expected);
}

TEST(DelayedNesterovTest, TheNumberOfWorkersIsTheRoundUnlessTheConfigHasItsOwn) {
  const auto of_three = Weights(*MakeOptimizer(Delayed(0.5, 3)), kGradients);
  EXPECT_EQ(Weights(*MakeOptimizer(Delayed(0.5, 0), 3), kGradients), of_three);
  EXPECT_EQ(Weights(*MakeOptimizer(Delayed(0.5, 3), 2), kGradients), of_three);
  EXPECT_NE(Weights(*MakeOptimizer(Delayed(0.5, 0), 2), kGradients), of_three);
}

TEST(DelayedNesterovTest, TheFirstRoundIsPlainUntilItsLastUpdate) {
  const auto weights = Weights(*MakeOptimizer(Delayed(1, 3)), kGradients);
  EXPECT_FLOAT_EQ(weights[0], -0.5f);
  EXPECT_FLOAT_EQ(weights[1], 0.5f);
  EXPECT_FLOAT_EQ(weights[2], 0.5f - 0.5f * (0.3f * 3 + 4)) << "the momentum is 1 - 2 + 4";
}

// Without gradients a round moves the weight by the old momentum's share mu, however it is spread.
TEST(DelayedNesterovTest, ARoundMovesByTheMomentumOnce) {
  const std::vector<float> gradients = {0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0};
  for (const double spread : {0.0, 0.5, 1.0}) {
    const auto weights = Weights(*MakeOptimizer(Delayed(spread, 4)), gradients);
    const double share = spread / 4, first = 1 - spread + share;
    // The momentum is 6, then 0.9 * 6 at the end of the second round, then 0.9 * 0.9 * 6.
    EXPECT_NEAR(weights[3], -0.5 * (first * 0.9 * 6 + 6), 1e-5);
    EXPECT_NEAR(weights[7] - weights[3], -0.5 * 0.9 * (3 * share * 6 + first * 0.9 * 6), 1e-5);
  }
}

}  // namespace
}  // namespace psgd
