// Random runs of servers with copies: the production cores of servers and sessions, each run
// watched by an oracle.
//
//   sim_test --seeds=10000 --first=1     more of them
//   sim_test --first=4711 --seeds=1      one again, with its trace where it fails
//   sim_test --late                      all with local steps and late workers
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/local_steps.h"
#include "tests/sim/run_world.h"

namespace psgd::sim {
namespace {

struct Range {
  uint64_t first = 1;
  uint64_t seeds = 300;
  bool late = false;
};
// The command line of this test; set once, by main, before any test runs.
Range& RandomRuns() {
  static Range range;
  return range;
}

// Local steps, and clocks that go on without late workers.
void MakeLate(Config* config) {
  if (!TakesLocalSteps(config->local())) config->mutable_local()->set_steps(2);
  ConsistencyConfig* consistency = config->mutable_consistency();
  consistency->set_staleness(0);
  consistency->set_pull_ahead(false);
  consistency->set_quorum(1 + config->cluster().workers() / 2);
  consistency->set_grace(5);
}

TEST(Simulation, RandomRunsKeepEveryPromise) {
  RunOutcome total;
  int failures = 0;
  const Range range = RandomRuns();
  for (uint64_t seed = range.first; seed < range.first + range.seeds; ++seed) {
    auto [scenario, faults] = RandomRun(seed);
    if (range.late) MakeLate(&scenario.config);
    const RunOutcome outcome = Simulate(scenario, faults, false);
    if (!outcome.breaches.empty()) {
      ADD_FAILURE() << Failure(scenario, faults);
      if (++failures == 3) break;
    }
    total.counts.pushes_made += outcome.counts.pushes_made;
    total.counts.pulls_checked += outcome.counts.pulls_checked;
    total.counts.late += outcome.counts.late;
    total.counts.cuts_checked += outcome.counts.cuts_checked;
    total.counts.passes += outcome.counts.passes;
    total.counts.uneven += outcome.counts.uneven;
    total.counts.dealt_again += outcome.counts.dealt_again;
    total.deaths += outcome.deaths;
    total.promotions += outcome.promotions;
    total.takeovers += outcome.takeovers;
    total.moves += outcome.moves;
    total.images += outcome.images;
    total.resent += outcome.resent;
    total.leaves += outcome.leaves;
    total.workers_cut_off += outcome.workers_cut_off;
    total.quarantined += outcome.quarantined;
    total.resumed += outcome.resumed;
    total.begun_again += outcome.begun_again;
    total.images_in_parts += outcome.images_in_parts;
    total.images_broken_off += outcome.images_broken_off;
  }
  std::cout << range.seeds << " runs, " << total.resumed
            << " of them twice, from a checkpoint, and " << total.begun_again
            << " once more, because its first server died before training: "
            << total.counts.pushes_made << " pushes, " << total.counts.pulls_checked
            << " pulls and " << total.counts.cuts_checked << " cuts checked, " << total.counts.late
            << " pulls went on without late workers, " << total.counts.passes
            << " passes over the data gave way to the next, " << total.counts.uneven
            << " segments were uneven, " << total.counts.dealt_again << " batches dealt again, "
            << total.deaths << " servers died, " << total.leaves << " left, "
            << total.workers_cut_off << " workers cut off, " << total.quarantined
            << " in quarantine, " << total.promotions << " copies promoted, " << total.takeovers
            << " leaderships of runs, " << total.moves << " shards moved, " << total.images
            << " images, " << total.images_in_parts << " went to other copies in parts, "
            << total.images_broken_off << " of them broke off, " << total.resent << " resent\n";
  if (range.seeds < 300) return;  // the rarest do not come in fewer
  // The faults happened: a run in which nothing goes wrong proves little.
  EXPECT_GT(total.counts.cuts_checked, range.seeds);
  EXPECT_GT(total.counts.pulls_checked, (range.late ? 20 : 40) * range.seeds);
  EXPECT_GT(total.counts.late, range.seeds);
  EXPECT_GT(total.counts.passes, range.seeds / 4);
  EXPECT_GT(total.counts.uneven, range.seeds / 50);
  EXPECT_GT(total.counts.dealt_again, range.seeds / 4);
  EXPECT_GT(total.resent, range.seeds);
  EXPECT_GT(total.deaths, range.seeds / 2);
  EXPECT_GT(total.promotions, range.seeds / 4);
  EXPECT_GT(total.moves, range.seeds / 4);
  EXPECT_GT(total.images, range.seeds / 4);
  EXPECT_GT(total.leaves, range.seeds / 50);
  EXPECT_GT(total.workers_cut_off, range.seeds / 4);
  EXPECT_GT(total.resumed, range.seeds / 20);
  EXPECT_GT(total.begun_again, 0u);
  EXPECT_GT(total.quarantined, range.seeds / 20);
  EXPECT_GT(total.images_in_parts, range.seeds / 4);
  EXPECT_GT(total.images_broken_off, range.seeds / 100);
}

RunOutcome CalmRun(const Scenario& scenario) { return Simulate(scenario, OneServer(), false); }

TEST(Simulation, TheSameSeedIsTheSameRun) {
  const auto run = [](uint64_t seed, bool trace) {
    const auto [scenario, faults] = RandomRun(seed);
    return Simulate(scenario, faults, trace).hash;
  };
  std::set<uint64_t> hashes;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    hashes.insert(run(seed, false));
    EXPECT_EQ(run(seed, false), run(seed, true)) << seed;
  }
  EXPECT_GT(hashes.size(), 25u) << "some runs end before they begin, and are the same";
}

// The schedule of the network must not show in the weights when nobody may be ahead.
RunOutcome Rescheduled(uint64_t schedule, int64_t staleness) {
  Scenario scenario = CalmScenario(77, 3, staleness);
  scenario.smooth = true;
  scenario.network_seed = schedule;
  scenario.network.slow = 0.2;
  scenario.network.slow_delay = std::chrono::milliseconds(30);
  scenario.fuse_bytes = 8u << (schedule % 14);
  scenario.window_bytes = 1u << (schedule % 20);
  return CalmRun(scenario);
}

TEST(Simulation, StalenessZeroGivesTheSameBitsOnEverySchedule) {
  const RunOutcome first = Rescheduled(1, 0);
  ASSERT_EQ(first.breaches, std::vector<std::string>());
  ASSERT_EQ(first.weights.size(), 5u);
  for (uint64_t schedule = 2; schedule <= 12; ++schedule) {
    const RunOutcome other = Rescheduled(schedule, 0);
    ASSERT_EQ(other.breaches, std::vector<std::string>());
    EXPECT_NE(other.hash, first.hash) << "the schedule did not change";
    EXPECT_EQ(other.weights, first.weights) << "schedule " << schedule;
  }
}

TEST(Simulation, WhereShardsLieAndWhoDiesDoesNotShowInTheBits) {
  const RunOutcome calm = Rescheduled(1, 0);
  uint64_t moves = 0, deaths = 0;
  for (uint64_t schedule = 1; schedule <= 12; ++schedule) {
    Scenario scenario = CalmScenario(77, 3, 0);
    scenario.smooth = true;
    scenario.network_seed = schedule;
    scenario.config.mutable_durability()->set_acknowledge(DurabilityConfig::JOURNAL);
    scenario.image_after = 30u << 10;
    RunFaults faults;
    faults.kills = 2;
    faults.rebalances = 4;
    EXPECT_EQ(Failure(scenario, faults), "");
    const RunOutcome outcome = Simulate(scenario, faults, false);
    EXPECT_EQ(outcome.weights, calm.weights) << "schedule " << schedule;
    moves += outcome.moves;
    deaths += outcome.deaths;
  }
  EXPECT_GT(moves, 12u);
  EXPECT_GT(deaths, 4u);
}

// On another number of shards, with the optimizer's state.
TEST(Simulation, ARunThatGoesOnFromACheckpointHasTheSameBits) {
  const auto run = [](uint64_t schedule, Duration given_up_after) {
    Scenario scenario = CalmScenario(77, 3, 0);
    scenario.smooth = true;
    scenario.network_seed = schedule;
    scenario.config.mutable_optimizer()->mutable_sgd()->set_momentum(0.9);
    scenario.config.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.01);
    RunFaults faults = OneServer();
    faults.given_up_after = given_up_after;
    EXPECT_EQ(Failure(scenario, faults), "");
    return Simulate(scenario, faults, false);
  };
  const RunOutcome whole = run(1, Duration(0));
  ASSERT_EQ(whole.weights.size(), 5u);
  uint64_t resumed = 0;
  for (uint64_t schedule = 1; schedule <= 12; ++schedule) {
    const RunOutcome outcome = run(schedule, std::chrono::milliseconds(10 * schedule));
    EXPECT_EQ(outcome.weights, whole.weights) << "schedule " << schedule;
    resumed += outcome.resumed;
  }
  EXPECT_GT(resumed, 8u);
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
    EXPECT_EQ(Failure(scenario, OneServer()), "");
    EXPECT_GT(CalmRun(scenario).counts.cuts_checked, 0u);
  }
}

// Sparse pushes, pulls of what they changed, and a network that loses and repeats replies.
TEST(Simulation, WorkersThatPullWhatChangedHaveTheShardsWeights) {
  uint64_t changes = 0, resent = 0;
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
    EXPECT_EQ(Failure(scenario, OneServer()), "");
    const RunOutcome outcome = CalmRun(scenario);
    changes += outcome.counts.changes_checked;
    resent += outcome.resent;
  }
  EXPECT_GT(changes, 1000u);
  EXPECT_GT(resent, 100u);
}

// Real-valued updates that depend on the weights, on what a worker was shown, and on the order:
// each life of a server goes on with the same bits, and the journal makes them once more.
TEST(Simulation, AServerThatIsStartedAgainHasTheSameBits) {
  uint64_t deaths = 0, promotions = 0, images = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Scenario scenario = CalmScenario(seed, 1 + static_cast<int>(seed % 3),
                                     std::initializer_list<int64_t>{2, -1}.begin()[seed % 2]);
    if (seed % 4 == 2) {  // late pushes count in later clocks
      scenario.config.mutable_consistency()->set_staleness(0);
      scenario.config.mutable_consistency()->set_quorum(1);
      scenario.config.mutable_consistency()->set_grace(5);
    }
    scenario.smooth = true;
    scenario.config.mutable_durability()->set_acknowledge(DurabilityConfig::JOURNAL);
    if (seed % 8 < 3) {
      scenario.config.mutable_optimizer()->mutable_delayed_nesterov()->set_learning_rate(0.01);
    } else {
      scenario.config.mutable_optimizer()->mutable_sgd()->set_momentum(0.9);
      scenario.config.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.01);
    }
    scenario.config.mutable_consistency()->set_compensation(
        seed % 4 < 2 ? ConsistencyConfig::DELAY : ConsistencyConfig::SCALE);
    scenario.crashes = static_cast<int>(seed % 2);
    scenario.image_after = 30u << 10;
    scenario.network.drop = 0.05;
    RunFaults faults = seed % 5 < 2 ? RunFaults() : OneServer();
    faults.kills = 4;
    EXPECT_EQ(Failure(scenario, faults), "");
    const RunOutcome outcome = Simulate(scenario, faults, false);
    deaths += outcome.deaths;
    promotions += outcome.promotions;
    images += outcome.images;
  }
  EXPECT_GT(deaths, 40u);
  EXPECT_GT(promotions, 5u);
  EXPECT_GT(images, 40u);
}

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
    } else if (flag[0] == "--late" && flag.size() == 1) {
      RandomRuns().late = true;
    } else {
      std::cerr << flag[0] << ": use --seeds=N, --first=N and --late\n";
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}

}  // namespace psgd::sim

int main(int argc, char** argv) { return psgd::sim::Main(argc, argv); }
