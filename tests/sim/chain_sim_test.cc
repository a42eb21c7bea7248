#include "tests/sim/chain_sim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd::sim {
namespace {

constexpr uint64_t kSeeds = 200;
constexpr int kSteps = 2000;

TEST(ChainSimulation, WhatIsAcknowledgedIsNotLostWhoeverLeads) {
  size_t acknowledged = 0;
  int takeovers = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    ChainSim sim(seed, ChainSabotage::kNone);
    ASSERT_EQ(sim.Run(kSteps), "") << "seed " << seed;
    acknowledged += sim.acknowledged();
    takeovers += sim.takeovers();
  }
  EXPECT_GT(acknowledged, 20 * kSeeds);
  EXPECT_GT(takeovers, static_cast<int>(3 * kSeeds));
}

class ChainCheckersCanFail : public testing::TestWithParam<ChainSabotage> {};

TEST_P(ChainCheckersCanFail, AndDo) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    if (!ChainSim(seed, GetParam()).Run(kSteps).empty()) return;
  }
  FAIL() << "nothing was found in " << kSeeds << " seeds";
}
INSTANTIATE_TEST_SUITE_P(ChainSimulation, ChainCheckersCanFail,
                         testing::Values(ChainSabotage::kStoreComparesNothing,
                                         ChainSabotage::kForgetBeforeTheChain,
                                         ChainSabotage::kSayWrittenBeforehand,
                                         ChainSabotage::kForgetWhenItCameIn));

}  // namespace
}  // namespace psgd::sim
