// Hundreds of random runs of the production protocol cores, each watched by an oracle.
//
//   sim_test --seeds=10000 --first=1     more of them
//   sim_test --first=4711 --seeds=1      one again: the same seed gives the same run
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/sim/cluster.h"

namespace psgd::sim {
namespace {

struct Range {
  uint64_t first = 1;
  uint64_t seeds = 2000;
};

// The command line of this test; set once, by main, before any test runs.
Range& RandomRuns() {
  static Range range;
  return range;
}

// Empty when all is well; otherwise what to read: the seed, the breaches, the last things that
// happened.
std::string Failure(const Scenario& scenario) {
  if (Cluster(scenario, false).Run().breaches.empty()) return "";
  const Outcome again = Cluster(scenario, true).Run();
  std::string text = absl::StrCat(Describe(scenario), "\n");
  for (const std::string& line : again.trace) absl::StrAppend(&text, "  ", line.substr(0, 240), "\n");
  for (const std::string& breach : again.breaches) absl::StrAppend(&text, "BREACH ", breach, "\n");
  return text;
}

// Others that hold shards, which move and are cut short all the time.
void AddServers(Scenario* scenario) {
  const bool journal = scenario->config.durability().acknowledge() == DurabilityConfig::JOURNAL;
  scenario->joined = 2;
  scenario->moves = 0.3;
  scenario->leaves = 2;
  scenario->broken_connections = 3;
  scenario->broken_calls = 0.05;
  scenario->late_calls = 0.05;
  scenario->joined_crashes = journal ? 2 : 0;
  scenario->killed_moves = journal ? 0.02 : 0;
}

TEST(Simulation, RandomRunsKeepEveryPromise) {
  Oracle::Counts total;
  ShardStats stats;
  uint64_t resent = 0, evaluations = 0, crashes = 0, takeovers = 0, images = 0;
  uint64_t moves = 0, undone_moves = 0, joined_crashes = 0;
  int failures = 0;
  const Range range = RandomRuns();
  for (uint64_t seed = range.first; seed < range.first + range.seeds; ++seed) {
    const Scenario scenario = RandomScenario(seed);
    const Outcome outcome = Cluster(scenario, false).Run();
    if (!outcome.breaches.empty()) {
      ADD_FAILURE() << Failure(scenario);
      if (++failures == 3) break;
    }
    total.pulls_checked += outcome.counts.pulls_checked;
    total.cuts_checked += outcome.counts.cuts_checked;
    total.pushes_made += outcome.counts.pushes_made;
    total.pushes_in_doubt += outcome.counts.pushes_in_doubt;
    stats.duplicates += outcome.stats.duplicates;
    for (const auto& [reason, count] : outcome.stats.refused) stats.refused[reason] += count;
    resent += outcome.resent;
    crashes += outcome.crashes;
    takeovers += outcome.takeovers;
    images += outcome.images;
    moves += outcome.moves;
    undone_moves += outcome.undone_moves;
    joined_crashes += outcome.joined_crashes;
    evaluations += outcome.evaluations;
  }
  std::cout << range.seeds << " runs: " << total.pushes_made << " pushes, " << total.pushes_in_doubt
            << " of them in doubt, " << total.pulls_checked << " pulls and " << total.cuts_checked
            << " cuts checked, " << stats.duplicates << " duplicates, " << resent << " resent, "
            << evaluations << " evaluations, " << crashes << " crashes of the server, "
            << takeovers << " takeovers, " << moves << " shards moved, " << undone_moves << " moves undone, "
            << joined_crashes << " crashes of servers that joined, " << images << " images of journals;";
  for (const auto& [reason, count] : stats.refused) std::cout << " " << reason << " " << count;
  std::cout << "\n";
  if (range.seeds < 100) return;
  // The faults happened: a run in which nothing goes wrong proves little.
  EXPECT_GT(total.cuts_checked, range.seeds);
  EXPECT_GT(total.pulls_checked, 50 * range.seeds);
  EXPECT_GT(stats.duplicates, 10 * range.seeds);
  EXPECT_GT(total.pushes_in_doubt, 0u);
  EXPECT_GT(crashes, range.seeds / 2);
  EXPECT_GT(takeovers, range.seeds / 10);
  EXPECT_GT(images, range.seeds / 2);
  EXPECT_GT(moves, 2 * range.seeds);
  EXPECT_GT(undone_moves, range.seeds / 10);
  EXPECT_GT(joined_crashes, range.seeds / 10);
  for (const char* reason : {"out_of_order", "fenced", "non_finite", "overloaded"}) {
    EXPECT_GT(stats.refused[reason], 0u) << reason;
  }
}

TEST(Simulation, TheSameSeedIsTheSameRun) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const Outcome one = Cluster(RandomScenario(seed), false).Run();
    const Outcome two = Cluster(RandomScenario(seed), true).Run();
    EXPECT_EQ(one.hash, two.hash) << seed;
    EXPECT_NE(one.hash, Cluster(RandomScenario(seed + 1), false).Run().hash) << seed;
  }
}

// The schedule of the network must not show in the weights when nobody may be ahead.
Outcome Rescheduled(uint64_t schedule, int64_t staleness) {
  Scenario scenario = CalmScenario(77, 3, staleness);
  scenario.smooth = true;
  scenario.network_seed = schedule;
  scenario.network.slow = 0.2;
  scenario.network.slow_delay = std::chrono::milliseconds(30);
  scenario.fuse_bytes = 8u << (schedule % 14);
  scenario.window_bytes = 1u << (schedule % 20);
  return Cluster(scenario, false).Run();
}

TEST(Simulation, StalenessZeroGivesTheSameBitsOnEverySchedule) {
  const Outcome first = Rescheduled(1, 0);
  ASSERT_EQ(first.breaches, std::vector<std::string>());
  ASSERT_EQ(first.weights.size(), 5u);
  for (uint64_t schedule = 2; schedule <= 12; ++schedule) {
    const Outcome other = Rescheduled(schedule, 0);
    ASSERT_EQ(other.breaches, std::vector<std::string>());
    EXPECT_NE(other.hash, first.hash) << "the schedule did not change";
    EXPECT_EQ(other.weights, first.weights) << "schedule " << schedule;
  }
}

TEST(Simulation, WhereShardsLieDoesNotShowInTheBits) {
  const Outcome calm = Rescheduled(1, 0);
  uint64_t moves = 0, crashes = 0;
  for (uint64_t schedule = 1; schedule <= 12; ++schedule) {
    Scenario scenario = CalmScenario(77, 3, 0);
    scenario.smooth = true;
    scenario.network_seed = schedule;
    scenario.config.mutable_durability()->set_acknowledge(DurabilityConfig::JOURNAL);
    scenario.image_after = 30u << 10;
    AddServers(&scenario);
    const Outcome outcome = Cluster(scenario, false).Run();
    ASSERT_EQ(outcome.breaches, std::vector<std::string>()) << Failure(scenario);
    EXPECT_EQ(outcome.weights, calm.weights) << "schedule " << schedule;
    moves += outcome.moves;
    crashes += outcome.joined_crashes;
  }
  EXPECT_GT(moves, 12u);
  EXPECT_GT(crashes, 4u);
}

TEST(Simulation, TheComparisonOfBitsCanFail) {
  EXPECT_NE(Rescheduled(1, 4).weights, Rescheduled(2, 4).weights);
}

TEST(Simulation, ALossyCodecLosesNothing) {
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    Scenario scenario = CalmScenario(seed, 1 + static_cast<int>(seed % 3),
                                     std::initializer_list<int64_t>{0, 2, -1}.begin()[seed % 3]);
    scenario.config.mutable_compression()->mutable_push()->mutable_topk()->set_density(0.05);
    scenario.network.drop = 0.1;
    scenario.network.repeat = 0.1;
    scenario.network.slow = 0.1;
    // The register of lossless runs is not needed; the control plane must not fail, so that every
    // worker stays to the end with its residuals.
    scenario.config.mutable_cluster()->set_lease(20000);
    EXPECT_EQ(Failure(scenario), "");
    const Outcome outcome = Cluster(scenario, false).Run();
    EXPECT_GT(outcome.counts.cuts_checked, 0u);
  }
}

void PullChanges(Scenario* scenario) {
  scenario->config.mutable_compression()->mutable_push()->mutable_topk()->set_density(0.01);
  scenario->config.mutable_compression()->mutable_pull()->mutable_delta();
}

// Sparse pushes, pulls of what they changed, and a network that loses and repeats replies.
TEST(Simulation, WorkersThatPullWhatChangedHaveTheShardsWeights) {
  uint64_t changes = 0, faults = 0;
  for (uint64_t seed = 1; seed <= 36; ++seed) {
    Scenario scenario = CalmScenario(seed, 1 + static_cast<int>(seed % 3),
                                     std::initializer_list<int64_t>{0, 2, -1}.begin()[seed % 3]);
    PullChanges(&scenario);
    scenario.config.mutable_consistency()->set_pull_ahead(seed % 3 != 0 && seed % 2 == 0);
    scenario.network.drop = 0.1;
    scenario.network.repeat = 0.2;
    scenario.network.slow = 0.1;
    scenario.reply_bytes = seed % 4 == 0 ? 1 : 4u << 20;
    scenario.config.mutable_cluster()->set_lease(20000);
    EXPECT_EQ(Failure(scenario), "");
    const Outcome outcome = Cluster(scenario, false).Run();
    changes += outcome.counts.changes_checked;
    faults += outcome.resent;
  }
  EXPECT_GT(changes, 1000u);
  EXPECT_GT(faults, 100u);
}

// Real-valued updates that depend on the weights, on what a worker was shown, and on the order: each
// life of the server goes on with the same bits, and the journal makes them once more.
TEST(Simulation, AServerThatIsStartedAgainHasTheSameBits) {
  uint64_t crashes = 0, takeovers = 0, images = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Scenario scenario = CalmScenario(seed, 1 + static_cast<int>(seed % 3),
                                     std::initializer_list<int64_t>{2, -1}.begin()[seed % 2]);
    scenario.smooth = true;
    scenario.config.mutable_durability()->set_acknowledge(
        seed % 5 < 2 ? DurabilityConfig::REPLICATED : DurabilityConfig::JOURNAL);
    scenario.config.mutable_optimizer()->mutable_sgd()->set_momentum(0.9);
    scenario.config.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.01);
    scenario.config.mutable_consistency()->set_compensation(
        seed % 4 < 2 ? ConsistencyConfig::DELAY : ConsistencyConfig::SCALE);
    scenario.server_crashes = 3;
    scenario.crashes = static_cast<int>(seed % 2);
    scenario.image_after = 30u << 10;
    scenario.disk_delay = std::chrono::milliseconds(2);
    scenario.network.drop = 0.05;
    EXPECT_EQ(Failure(scenario), "");
    const Outcome outcome = Cluster(scenario, false).Run();
    crashes += outcome.crashes;
    takeovers += outcome.takeovers;
    images += outcome.images;
  }
  EXPECT_GT(crashes, 60u);
  EXPECT_GT(takeovers, 10u);
  EXPECT_GT(images, 60u);
}

struct Breakage {
  Sabotage sabotage;
  const char* found;
  DiskFault disk = DiskFault::kNone;
};

class CheckersCanFail : public testing::TestWithParam<Breakage> {};

TEST_P(CheckersCanFail, AndSayWhy) {
  const auto [sabotage, found, disk] = GetParam();
  // One breach shows in several ways, and the first one found ends a run: which, the seed decides.
  std::vector<std::string> breaches;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Scenario scenario = CalmScenario(seed, 3, 1);
    scenario.sabotage = sabotage;
    if (sabotage == Sabotage::kIgnoreGate) scenario.slow_step = std::chrono::seconds(2);
    if (sabotage == Sabotage::kForgetOwn) {
      scenario.config.mutable_consistency()->set_staleness(-1);
      scenario.slow_step = std::chrono::seconds(2);
    }
    if (sabotage == Sabotage::kKeepDead) scenario.crashes = 1;
    if (sabotage == Sabotage::kClaimSteps) scenario.crashes = 2;  // one may hit while it trains
    if (sabotage == Sabotage::kClaimNewer) PullChanges(&scenario);
    if (sabotage == Sabotage::kHideStep) scenario.clock_steps = 2;
    if (sabotage >= Sabotage::kDontStandStill) AddServers(&scenario);
    if (sabotage == Sabotage::kKeepMove) scenario.broken_connections = 60;
    if (disk != DiskFault::kNone || sabotage == Sabotage::kForgetOrders ||
        sabotage == Sabotage::kOldRecord || sabotage == Sabotage::kDontWait) {
      scenario.config.mutable_durability()->set_acknowledge(
          sabotage == Sabotage::kDontWait ? DurabilityConfig::REPLICATED : DurabilityConfig::JOURNAL);
      scenario.server_crashes = 2;
      scenario.config.mutable_train()->set_epochs(3);
    }
    scenario.disk_fault = disk;
    scenario.patience = std::chrono::seconds(30);
    const Outcome broken = Cluster(scenario, false).Run();
    breaches.insert(breaches.end(), broken.breaches.begin(), broken.breaches.end());
    scenario.sabotage = Sabotage::kNone;
    scenario.disk_fault = DiskFault::kNone;
    EXPECT_EQ(Failure(scenario), "");
  }
  EXPECT_THAT(breaches, testing::Contains(testing::HasSubstr(found)));
}

INSTANTIATE_TEST_SUITE_P(
    Simulation, CheckersCanFail,
    testing::Values(Breakage{Sabotage::kRepeatPush, "was applied 2 times"},
                    Breakage{Sabotage::kLosePush, "lacks clock"},
                    Breakage{Sabotage::kChangePush, "the applied updates make"},
                    Breakage{Sabotage::kIgnoreGate, "stale pull"},
                    Breakage{Sabotage::kForgetOwn, "stale pull"},
                    Breakage{Sabotage::kLateCut, "beyond its clock"},
                    Breakage{Sabotage::kEarlyCut, "lacks clock"},
                    Breakage{Sabotage::kKeepDead, "the run did not end"},
                    Breakage{Sabotage::kRefuseSound, "refused a sound push"},
                    Breakage{Sabotage::kClaimSteps, "dealt and not done"},
                    Breakage{Sabotage::kClaimNewer, "has other weights than version"},
                    Breakage{Sabotage::kForgetOrders, "the run did not end"},
                    Breakage{Sabotage::kOldRecord, "was not dealt to it"},
                    Breakage{Sabotage::kDontWait, "has lost pushes that it acknowledged"},
                    Breakage{Sabotage::kHideStep, "was put out, though it was heard"},
                    Breakage{Sabotage::kDontStandStill, "answered for shard"},
                    Breakage{Sabotage::kLoseSteps, "has lost pushes that it acknowledged"},
                    Breakage{Sabotage::kForgetNumbers, "has lost pushes that it acknowledged"},
                    Breakage{Sabotage::kTellUnwritten, "answered for shard"},
                    Breakage{Sabotage::kKeepMove, "came back without shard"},
                    Breakage{Sabotage::kNone, "has lost pushes that it acknowledged",
                             DiskFault::kForgetsLast},
                    Breakage{Sabotage::kNone, "was applied 2 times", DiskFault::kRepeatsLast},
                    Breakage{Sabotage::kNone, "the applied updates make", DiskFault::kChangesOne}));

TEST(Simulation, TheBooksOfALossyCodecCanFail) {
  Scenario scenario = CalmScenario(1, 2, 1);
  scenario.config.mutable_compression()->mutable_push()->mutable_topk()->set_density(0.05);
  scenario.sabotage = Sabotage::kLosePush;
  EXPECT_THAT(Cluster(scenario, false).Run().breaches,
              testing::Contains(testing::HasSubstr("applied and kept to")));
}

}  // namespace

bool ParseFlag(absl::string_view argument, absl::string_view name, uint64_t* value) {
  return absl::ConsumePrefix(&argument, name) && absl::SimpleAtoi(argument, value);
}

int Main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (ParseFlag(argv[i], "--seeds=", &RandomRuns().seeds) ||
        ParseFlag(argv[i], "--first=", &RandomRuns().first)) {
      continue;
    }
    std::cerr << argv[i] << ": use --seeds=N and --first=N\n";
    return 2;
  }
  return RUN_ALL_TESTS();
}

}  // namespace psgd::sim

int main(int argc, char** argv) { return psgd::sim::Main(argc, argv); }
