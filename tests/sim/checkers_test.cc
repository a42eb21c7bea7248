// Bugs planted on purpose, at least one for each checker. The checker finds the bug and names it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "tests/sim/run_world.h"

namespace psgd::sim {
namespace {

struct Breakage {
  Sabotage sabotage;
  const char* found;
  DiskFault disk = DiskFault::kNone;
  bool quorum = false;  // clocks go on without late workers
};

// Sets the conditions under which the bug appears.
void MakeRoomFor(Sabotage sabotage, Scenario* scenario) {
  switch (sabotage) {
    case Sabotage::kIgnoreGate:
    case Sabotage::kGateOff:
      scenario->slow_step = std::chrono::seconds(2);
      break;
    case Sabotage::kForgetOwn:
      scenario->config.mutable_consistency()->set_staleness(-1);
      scenario->slow_step = std::chrono::seconds(2);
      break;
    case Sabotage::kRepeatLate:
      scenario->config.mutable_local()->set_steps(2);
      break;
    case Sabotage::kApplyRepeats:
      scenario->network.repeat = 0.3;
      break;
    case Sabotage::kCleanPoison:
      scenario->poison = 0.2;
      break;
    case Sabotage::kHidePoison:
      scenario->poison = 0.2;
      scenario->config.mutable_cluster()->set_quarantine(1);
      break;
    case Sabotage::kKeepDead:
      scenario->crashes = 1;
      break;
    case Sabotage::kClaimSteps:
      scenario->crashes = 2;  // one may hit while it trains
      break;
    case Sabotage::kClaimNewer:
      PullChanges(scenario);
      break;
    default:
      break;
  }
}

void MakeRoomFor(DiskFault fault, Scenario* scenario, RunFaults* faults) {
  if (fault == DiskFault::kNone) return;
  const bool power = fault >= DiskFault::kNeverSyncs;
  scenario->config.mutable_durability()->set_acknowledge(power ? DurabilityConfig::FSYNC
                                                               : DurabilityConfig::JOURNAL);
  scenario->config.mutable_train()->set_epochs(3);
  faults->kills = 4;
  if (!power) return;
  faults->kills = 10;
  faults->power_losses = 10;
  scenario->longest_step = std::chrono::milliseconds(150);  // so that most of them come in time
  scenario->image_after = 10u << 10;
  if (fault == DiskFault::kForgetsToSyncWhatItFinds) {
    scenario->image_after = 1u << 30;  // an image hides what was not synced before it
    // A power loss must follow a death during a write. Such deaths are rare, so there are more
    // kills.
    faults->kills = 20;
    faults->power_losses = 5;
    scenario->config.mutable_train()->set_epochs(4);
  }
  scenario->torn_images = 0.7;
}

// Runs with seeds from 1 to `most`, until a breach says `found`. Returns the breaches. `last`: the
// seed of the last run.
std::vector<std::string> BreachesUntil(const std::string& found, uint64_t most,
                                       const std::function<RunOutcome(uint64_t seed)>& run,
                                       uint64_t* last = nullptr) {
  std::vector<std::string> breaches;
  for (uint64_t seed = 1; seed <= most; ++seed) {
    if (last != nullptr) *last = seed;
    for (const std::string& breach : run(seed).breaches) {
      breaches.push_back(breach);
      if (absl::StrContains(breach, found)) return breaches;
    }
  }
  return breaches;
}

class CheckersCanFail : public testing::TestWithParam<Breakage> {};

TEST_P(CheckersCanFail, AndSayWhy) {
  const auto [sabotage, found, disk, quorum] = GetParam();
  const auto make = [sabotage, disk, quorum](uint64_t seed) {
    Scenario scenario = CalmScenario(seed, 3, quorum ? 0 : 1);
    if (quorum) {
      scenario.config.mutable_consistency()->set_quorum(1);
      scenario.config.mutable_consistency()->set_grace(2);
    }
    MakeRoomFor(sabotage, &scenario);
    RunFaults faults = OneServer();
    MakeRoomFor(disk, &scenario, &faults);
    scenario.patience = std::chrono::seconds(30);
    return std::pair(scenario, faults);
  };
  uint64_t last = 0;
  // One bug can cause several breaches. A run ends at the first; the seed decides which.
  EXPECT_THAT(BreachesUntil(
                  found, 300,
                  [&](uint64_t seed) {
                    auto [scenario, faults] = make(seed);
                    scenario.sabotage = sabotage;
                    scenario.disk_fault = disk;
                    return Simulate(scenario, faults, false);
                  },
                  &last),
              testing::Contains(testing::HasSubstr(found)));
  for (uint64_t seed = 1; seed <= std::max<uint64_t>(last, 30); ++seed) {
    const auto [scenario, faults] = make(seed);
    EXPECT_EQ(Failure(scenario, faults), "") << "without the bug";
  }
}

// By the promise that they break (docs/simulator.md).
INSTANTIATE_TEST_SUITE_P(ExactlyOnce, CheckersCanFail,
                         testing::Values(Breakage{Sabotage::kRepeatPush, "was applied 2 times"},
                                         Breakage{Sabotage::kApplyRepeats, "was applied 2 times"},
                                         Breakage{Sabotage::kLosePush, "lacks clock"},
                                         Breakage{Sabotage::kLosePart, "lacks clock"},
                                         Breakage{Sabotage::kChangePush,
                                                  "the applied updates make"},
                                         Breakage{Sabotage::kForgePush, "nobody made it"},
                                         Breakage{Sabotage::kClaimSteps, "dealt and not done"}));
INSTANTIATE_TEST_SUITE_P(
    LatePushes, CheckersCanFail,
    testing::Values(Breakage{Sabotage::kRepeatLate, "was applied 2 times", DiskFault::kNone, true},
                    Breakage{Sabotage::kLosePush, "lacks clock", DiskFault::kNone, true},
                    Breakage{Sabotage::kNone, "has lost pushes that it acknowledged",
                             DiskFault::kForgetsLast, true}));
INSTANTIATE_TEST_SUITE_P(
    Journal, CheckersCanFail,
    testing::Values(
        Breakage{Sabotage::kNone, "has lost pushes that it acknowledged", DiskFault::kForgetsLast},
        Breakage{Sabotage::kNone, "was applied 2 times", DiskFault::kRepeatsLast},
        Breakage{Sabotage::kNone, "the applied updates make", DiskFault::kChangesOne},
        Breakage{Sabotage::kNone, "has lost pushes that it acknowledged", DiskFault::kWritesLate},
        Breakage{Sabotage::kNone, "has lost pushes that it acknowledged", DiskFault::kNeverSyncs},
        Breakage{Sabotage::kNone, "cannot go on from its journal",
                 DiskFault::kForgetsToSyncWhatItFinds},
        Breakage{Sabotage::kNone, "is in, but nobody made it", DiskFault::kKeepsTorn}));
INSTANTIATE_TEST_SUITE_P(Staleness, CheckersCanFail,
                         testing::Values(Breakage{Sabotage::kIgnoreGate, "stale pull"},
                                         Breakage{Sabotage::kGateOff, "stale pull"},
                                         Breakage{Sabotage::kForgetOwn, "stale pull"},
                                         Breakage{Sabotage::kClaimNewer,
                                                  "has other weights than version"}));
INSTANTIATE_TEST_SUITE_P(Checkpoints, CheckersCanFail,
                         testing::Values(Breakage{Sabotage::kLateCut, "beyond its clock"},
                                         Breakage{Sabotage::kIgnoreMarker, "beyond its clock"},
                                         Breakage{Sabotage::kEarlyCut, "lacks clock"},
                                         Breakage{Sabotage::kChangeState, "is of clock"}));
INSTANTIATE_TEST_SUITE_P(
    BadMessages, CheckersCanFail,
    testing::Values(Breakage{Sabotage::kRefuseSound, "refused a sound push"},
                    Breakage{Sabotage::kCleanPoison, "is in, but was not finite"},
                    Breakage{Sabotage::kHidePoison, "but its worker was in quarantine"}));
INSTANTIATE_TEST_SUITE_P(Membership, CheckersCanFail,
                         testing::Values(Breakage{Sabotage::kKeepDead, "the run did not end"}));

// Each server that dies loses its last write, and a worker dies with it. The dead worker cannot
// resend the lost update. Another worker's weights may contain it.
std::vector<std::string> RunsThatLoseWeights(Sabotage sabotage, const std::string& until,
                                             uint64_t most) {
  return BreachesUntil(until, most, [sabotage](uint64_t seed) {
    Scenario scenario = CalmScenario(seed, 3, -1);
    scenario.config.mutable_local()->set_steps(2);
    scenario.config.mutable_durability()->set_acknowledge(DurabilityConfig::JOURNAL);
    scenario.config.mutable_train()->set_epochs(3);
    scenario.config.mutable_cluster()->set_segment(14);
    scenario.longest_step = std::chrono::milliseconds(150);
    scenario.patience = std::chrono::seconds(30);
    scenario.disk_fault = DiskFault::kWritesLate;
    scenario.sabotage = sabotage;
    RunFaults faults = OneServer();
    faults.kills = 10;
    faults.kills_workers = true;
    return Simulate(scenario, faults, false);
  });
}

TEST(LostWeights, NoDifferenceFromThemCounts) {
  const std::vector<std::string> found = RunsThatLoseWeights(Sabotage::kNone, "a difference", 200);
  EXPECT_THAT(found, testing::Contains(testing::HasSubstr("the update is computed from version")));
  EXPECT_THAT(found, testing::Not(testing::Contains(testing::HasSubstr("a difference from"))));
}

TEST(LostWeights, ADifferenceFromThemIsFound) {
  // Another worker must have the lost update, and nobody may send it again. Few runs do that.
  const char found[] = "a difference from weights";
  EXPECT_THAT(RunsThatLoseWeights(Sabotage::kTrustLost, found, 1500),
              testing::Contains(testing::HasSubstr(found)));
}

class LossyBooksCanFail : public testing::TestWithParam<Sabotage> {};

TEST_P(LossyBooksCanFail, AndSayWhy) {
  Scenario scenario = CalmScenario(1, 2, 1);
  scenario.config.mutable_compression()->mutable_push()->mutable_topk()->set_density(0.05);
  scenario.sabotage = GetParam();
  EXPECT_THAT(Simulate(scenario, OneServer(), false).breaches,
              testing::Contains(testing::HasSubstr("applied and kept to")));
}

INSTANTIATE_TEST_SUITE_P(Conservation, LossyBooksCanFail,
                         testing::Values(Sabotage::kLosePush, Sabotage::kForgetResidual));

}  // namespace
}  // namespace psgd::sim
