// Hundreds of random runs of the production protocol cores, each watched by an oracle.
//
//   sim_test --seeds=10000 --first=1     more of them
//   sim_test --first=4711 --seeds=1      one again: the same seed gives the same run
//   sim_test --case FILE [--seed N]      one that is written down (docs/simulator.md)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/sim/case_file.h"
#include "tests/sim/runs.h"

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

TEST(Simulation, RandomRunsKeepEveryPromise) {
  Oracle::Counts total;
  ShardStats stats;
  uint64_t resent = 0, evaluations = 0, crashes = 0, takeovers = 0, images = 0;
  uint64_t moves = 0, undone_moves = 0, joined_crashes = 0;
  uint64_t power_losses = 0, found_out = 0, torn_images = 0, pauses = 0;
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
    power_losses += outcome.power_losses;
    found_out += !outcome.found_out.empty();
    torn_images += outcome.torn_images;
    pauses += outcome.server_pauses;
    evaluations += outcome.evaluations;
  }
  std::cout << range.seeds << " runs: " << total.pushes_made << " pushes, " << total.pushes_in_doubt
            << " of them in doubt, " << total.pulls_checked << " pulls and " << total.cuts_checked
            << " cuts checked, " << stats.duplicates << " duplicates, " << resent << " resent, "
            << evaluations << " evaluations, " << crashes << " crashes of the server, " << takeovers
            << " takeovers, " << moves << " shards moved, " << undone_moves << " moves undone, "
            << joined_crashes << " crashes of servers that joined, " << power_losses
            << " times without power, after which " << found_out
            << " runs ended since what a journal lost was found out, " << pauses
            << " pauses of servers, " << images << " images of journals, " << torn_images
            << " passed over;";
  for (const auto& [reason, count] : stats.refused) std::cout << " " << reason << " " << count;
  std::cout << "\n";
  if (range.seeds < 1000) return;  // the rarest do not come in fewer
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
  EXPECT_GT(power_losses, range.seeds / 4);
  EXPECT_GT(found_out, range.seeds / 200);
  EXPECT_GT(torn_images, range.seeds / 500);
  EXPECT_GT(pauses, range.seeds / 2);
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

// Real-valued updates that depend on the weights, on what a worker was shown, and on the order:
// each life of the server goes on with the same bits, and the journal makes them once more.
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

}  // namespace

// Prints what happened; returns the exit code.
int RunCase(const std::string& path, std::optional<uint64_t> seed) {
  const auto written = LoadCase(path);
  const auto scenario =
      written.ok() ? ScenarioOf(*written, seed.value_or(written->seed())) : written.status();
  if (!scenario.ok()) {
    std::cerr << scenario.status().message() << "\n";
    return 2;
  }
  const Outcome outcome = Cluster(*scenario, true).Run();
  std::cout << WhatHappened(*scenario, outcome);
  if (!outcome.breaches.empty()) return 1;
  std::cout << (outcome.found_out.empty()
                    ? "every promise was kept"
                    : absl::StrCat("ended, since the loss was found out: ", outcome.found_out))
            << "; " << Seconds(outcome.took) << " s simulated, " << outcome.counts.pushes_made
            << " pushes, " << outcome.crashes + outcome.joined_crashes << " servers that died\n";
  return 0;
}

int Main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::string path;
  std::optional<uint64_t> seed;
  for (int i = 1; i < argc; ++i) {
    const std::vector<std::string> flag = absl::StrSplit(argv[i], absl::MaxSplits('=', 1));
    const bool next = flag.size() == 1 && i + 1 < argc;
    const std::string value = flag.size() == 2 ? flag[1] : next ? argv[++i] : "";
    uint64_t number = 0;
    const bool is_number = absl::SimpleAtoi(value, &number);
    if (flag[0] == "--case" && !value.empty()) {
      path = value;
    } else if (flag[0] == "--seed" && is_number) {
      seed = number;
    } else if (flag[0] == "--seeds" && is_number) {
      RandomRuns().seeds = number;
    } else if (flag[0] == "--first" && is_number) {
      RandomRuns().first = number;
    } else {
      std::cerr << flag[0] << ": use --seeds N and --first N, or --case FILE and --seed N\n";
      return 2;
    }
  }
  return path.empty() ? RUN_ALL_TESTS() : RunCase(path, seed);
}

}  // namespace psgd::sim

int main(int argc, char** argv) { return psgd::sim::Main(argc, argv); }
