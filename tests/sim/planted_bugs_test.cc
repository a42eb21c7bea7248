// Bugs planted on purpose in the protocol between servers: random runs find each of them, two of
// them only with the faults that they need.
#include <gtest/gtest.h>

#include <iostream>

#include "tests/sim/run_world.h"

namespace psgd::sim {
namespace {

struct PlantedBug {
  const char* name;
  CopyBug bug;
};

void PrintTo(const PlantedBug& planted, std::ostream* out) { *out << planted.name; }

class PlantedBugs : public testing::TestWithParam<PlantedBug> {};

constexpr uint64_t kFindWithin = 200;

// A server that leads shards loses its power once, with all that its journals did not sync.
void MakeRoomForALostEnd(Scenario* scenario, RunFaults* faults) {
  scenario->config.mutable_durability()->set_acknowledge(DurabilityConfig::JOURNAL);
  scenario->config.mutable_cluster()->set_shards(3);
  scenario->longest_step = std::chrono::milliseconds(150);
  scenario->image_after = 1u << 30;
  faults->machines = 2;
  faults->copies = 2;
  faults->power_losses = 1;
  faults->deleted_disks = 0;
  faults->kills = faults->answer_kills = faults->pauses = faults->cuts = 0;
}

// The first server of a run that goes on from a checkpoint dies, most often before training begins.
void MakeRoomForAnEarlyDeath(Scenario* scenario, RunFaults* faults) {
  scenario->config.mutable_durability()->set_acknowledge(DurabilityConfig::FSYNC);
  faults->given_up_after = std::chrono::milliseconds(300);
  faults->early_deaths = 1;
}

TEST_P(PlantedBugs, AreFound) {
  for (uint64_t seed = 1; seed <= kFindWithin; ++seed) {
    auto [scenario, faults] = RandomRun(seed);
    faults.bug = GetParam().bug;
    if (faults.bug == CopyBug::kBelieveRestarted) MakeRoomForALostEnd(&scenario, &faults);
    if (faults.bug == CopyBug::kForgetResume) MakeRoomForAnEarlyDeath(&scenario, &faults);
    const RunOutcome outcome = Simulate(scenario, faults, false);
    if (outcome.breaches.empty()) continue;
    std::cout << "seed " << seed << ": " << outcome.breaches.front() << "\n";
    return;
  }
  ADD_FAILURE() << "no seed up to " << kFindWithin << " finds it";
}

INSTANTIATE_TEST_SUITE_P(
    All, PlantedBugs,
    testing::Values(PlantedBug{"AcknowledgesBeforeCopiesHaveIt", CopyBug::kDontWait},
                    PlantedBug{"PromotesACopyThatLags", CopyBug::kPromoteLagging},
                    PlantedBug{"ForgetsTheSegmentsOfTheRecord", CopyBug::kForgetLedger},
                    PlantedBug{"DealsBatchesTwice", CopyBug::kDealAgain},
                    PlantedBug{"DealsWhatACheckpointHas", CopyBug::kDealAll},
                    PlantedBug{"TwoLeadersUnderOneEpoch", CopyBug::kSameEpoch},
                    PlantedBug{"ForgetsOrdersOfTheRecord", CopyBug::kForgetOrders},
                    PlantedBug{"ForgetsAMemberOfTheRecord", CopyBug::kForgetMembers},
                    PlantedBug{"ForgetsTheCheckpointUnderWay", CopyBug::kForgetCheckpoint},
                    PlantedBug{"TellsWhatIsNotStored", CopyBug::kTellUnstored},
                    PlantedBug{"ForgetsTheCheckpointItGoesOnFrom", CopyBug::kForgetResume},
                    PlantedBug{"SkipsAStepOfTheJournal", CopyBug::kSkipStep},
                    PlantedBug{"KeepsWhatDiverged", CopyBug::kKeepDiverged},
                    PlantedBug{"BelievesACopyThatRestarted", CopyBug::kBelieveRestarted},
                    PlantedBug{"TakesHalfAnImage", CopyBug::kTakeHalfImage},
                    PlantedBug{"IgnoresWhoLeadsInTheStore", CopyBug::kIgnoreStore}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace psgd::sim
