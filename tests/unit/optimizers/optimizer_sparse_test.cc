#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/philox.h"
#include "optimizers/optimizer.h"

namespace psgd {
namespace {

constexpr size_t kSize = 1000;

struct Sparse {
  std::vector<uint32_t> indices;
  std::vector<float> values;
};

Sparse RandomEntries(uint64_t stream) {
  RandomStream random(MakeKey(3, RandomPurpose::kSynthetic), stream);
  Sparse sparse;
  for (uint32_t i = 0; i < kSize; ++i) {
    if (random.NextBelow(20) != 0) continue;
    sparse.indices.push_back(i);
    sparse.values.push_back(random.NextUnit() - 0.5f);
  }
  return sparse;
}

void ExpectSparseEqualsDense(const OptimizerConfig& config) {
  const auto optimizer = MakeOptimizer(config);
  ASSERT_TRUE(optimizer->sparse());
  std::vector<float> weights(kSize, 0.25f), state(kSize), dense_weights = weights,
                                                          dense_state = state;
  for (uint64_t t = 1; t <= 10; ++t) {
    const OptimizerStep step{.learning_rate = 0.1, .weight_decay = 0, .step = t};
    const Sparse sparse = RandomEntries(t);
    SparseUpdate update;
    update.indices = sparse.indices;
    update.values = sparse.values;
    update.scale = 0.5f;
    update.weights = weights.data();
    update.states[0] = state.data();
    optimizer->ApplySparse(step, update);

    std::vector<float> gradient(kSize);
    for (size_t i = 0; i < sparse.indices.size(); ++i) {
      gradient[sparse.indices[i]] += 0.5f * sparse.values[i];
    }
    OptimizerBlock block;
    block.size = kSize;
    block.gradient = gradient.data();
    block.weights_in = block.weights_out = dense_weights.data();
    block.state_in[0] = block.state_out[0] = dense_state.data();
    optimizer->ApplyBlock(step, block);
  }
  EXPECT_EQ(weights, dense_weights);
  EXPECT_EQ(state, dense_state);
  EXPECT_NE(weights, std::vector<float>(kSize, 0.25f));
}

TEST(OptimizerSparseTest, SgdEqualsDenseBitForBit) {
  OptimizerConfig config;
  config.mutable_sgd();
  ExpectSparseEqualsDense(config);
}

TEST(OptimizerSparseTest, AdagradEqualsDenseBitForBit) {
  OptimizerConfig config;
  config.mutable_adagrad();
  ExpectSparseEqualsDense(config);
}

TEST(OptimizerSparseTest, OptimizersThatMoveEveryElementHaveNoSparseForm) {
  OptimizerConfig momentum, adam, adamw, delayed, lars, lamb;
  momentum.mutable_sgd()->set_momentum(0.5);
  adam.mutable_adam();
  adamw.mutable_adamw();
  delayed.mutable_delayed_nesterov();
  lars.mutable_lars();
  lamb.mutable_lamb();
  for (const auto& config : {momentum, adam, adamw, delayed, lars, lamb}) {
    EXPECT_FALSE(MakeOptimizer(config)->sparse());
  }
}

}  // namespace
}  // namespace psgd
