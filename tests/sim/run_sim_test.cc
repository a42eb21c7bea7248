// Random runs of servers with copies: the production cores of servers and sessions, each run
// watched by an oracle.
//
//   run_sim_test --seeds=10000 --first=1     more of them
//   run_sim_test --first=4711 --seeds=1      one again, with its trace where it fails
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/sim/run_world.h"

namespace psgd::sim {
namespace {

struct Range {
  uint64_t first = 1;
  uint64_t seeds = 300;
};
// The command line of this test; set once, by main, before any test runs.
Range& RandomRuns() {
  static Range range;
  return range;
}

std::string Failure(const Scenario& scenario, const RunFaults& faults) {
  const RunOutcome outcome = RunWorld(scenario, faults, true).Run();
  if (outcome.breaches.empty()) return "";
  return absl::StrCat(Describe(scenario, faults), "\n", absl::StrJoin(outcome.trace, "\n"),
                      "\nbreach: ", absl::StrJoin(outcome.breaches, "\n"));
}

TEST(RunSimulation, RandomRunsKeepEveryPromise) {
  RunOutcome total;
  int failures = 0;
  const Range range = RandomRuns();
  for (uint64_t seed = range.first; seed < range.first + range.seeds; ++seed) {
    const auto [scenario, faults] = RandomRun(seed);
    const RunOutcome outcome = RunWorld(scenario, faults, false).Run();
    if (!outcome.breaches.empty()) {
      ADD_FAILURE() << Failure(scenario, faults);
      if (++failures == 3) break;
    }
    total.counts.pushes_made += outcome.counts.pushes_made;
    total.counts.pulls_checked += outcome.counts.pulls_checked;
    total.counts.cuts_checked += outcome.counts.cuts_checked;
    total.deaths += outcome.deaths;
    total.promotions += outcome.promotions;
    total.takeovers += outcome.takeovers;
    total.moves += outcome.moves;
    total.images += outcome.images;
  }
  std::cout << range.seeds << " runs: " << total.counts.pushes_made << " pushes, "
            << total.counts.pulls_checked << " pulls and " << total.counts.cuts_checked
            << " cuts checked, " << total.deaths << " servers died, " << total.promotions
            << " copies promoted, " << total.takeovers << " leaderships of runs, " << total.moves
            << " shards moved, " << total.images << " images\n";
}

struct PlantedBug {
  const char* name;
  CopyBug bug;
};

void PrintTo(const PlantedBug& planted, std::ostream* out) { *out << planted.name; }

class PlantedBugs : public testing::TestWithParam<PlantedBug> {};

constexpr uint64_t kFindWithin = 200;

TEST_P(PlantedBugs, AreFound) {
  for (uint64_t seed = 1; seed <= kFindWithin; ++seed) {
    auto [scenario, faults] = RandomRun(seed);
    faults.bug = GetParam().bug;
    const RunOutcome outcome = RunWorld(scenario, faults, false).Run();
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
                    PlantedBug{"TwoLeadersUnderOneEpoch", CopyBug::kSameEpoch},
                    PlantedBug{"ForgetsOrdersOfTheRecord", CopyBug::kForgetOrders},
                    PlantedBug{"ForgetsAMemberOfTheRecord", CopyBug::kForgetMembers},
                    PlantedBug{"ForgetsTheCheckpointUnderWay", CopyBug::kForgetCheckpoint},
                    PlantedBug{"TellsWhatIsNotStored", CopyBug::kTellUnstored},
                    PlantedBug{"SkipsAStepOfTheJournal", CopyBug::kSkipStep},
                    PlantedBug{"KeepsWhatDiverged", CopyBug::kKeepDiverged},
                    PlantedBug{"BelievesACopyThatRestarted", CopyBug::kBelieveRestarted},
                    PlantedBug{"IgnoresWhoLeadsInTheStore", CopyBug::kIgnoreStore}),
    [](const auto& info) { return info.param.name; });

}  // namespace

int Main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::vector<std::string> flag = absl::StrSplit(argv[i], absl::MaxSplits('=', 1));
    uint64_t number = 0;
    const bool is_number = flag.size() == 2 && absl::SimpleAtoi(flag[1], &number);
    if (flag[0] == "--seeds" && is_number) {
      RandomRuns().seeds = number;
    } else if (flag[0] == "--first" && is_number) {
      RandomRuns().first = number;
    } else {
      std::cerr << flag[0] << ": use --seeds=N and --first=N\n";
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}

}  // namespace psgd::sim

int main(int argc, char** argv) { return psgd::sim::Main(argc, argv); }
