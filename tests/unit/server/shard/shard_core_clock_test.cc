// Clocks: sums at staleness 0, late joiners, workers that die, and the limit of held pushes.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/unit/server/shard/shard_fixture.h"

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ShardClock, StalenessZeroSumsInWorkerOrderWhoeverIsFirst) {
  // Floats whose sum depends on the order.
  const float a = 1e8f, b = -1e8f, c = 1.25f;
  const float expected = 0.0f - 1.0f * (((0.0f + a) + b) + c);
  ASSERT_NE(expected, 0.0f - 1.0f * (((0.0f + c) + a) + b));
  std::vector<uint32_t> order = {0, 1, 2};
  do {
    ShardFixture shard({.staleness = 0, .elements = {1}});
    shard.Start(3);
    const Values values = {a, b, c};
    for (uint32_t worker : order) {
      shard.Acknowledged(ShardFixture::PushOf(worker, 1, 1, {{0, {values[worker]}}}));
    }
    EXPECT_EQ(shard.Weights(0), Values{expected});
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(ShardClock, StalenessZeroAppliesNothingBeforeAllHaveCome) {
  ShardFixture shard({.staleness = 0});
  shard.Start(2);
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1, 1, 1, 1}}}));
  EXPECT_EQ(shard.Weights(0), (Values{0, 0, 0, 0}));
  EXPECT_THAT(shard.core().LateWorkers(), IsEmpty()) << "nobody waits yet";
  EXPECT_TRUE(shard.Send(ShardFixture::PullOf(0, 1, 1)).empty());
  EXPECT_EQ(shard.core().waiting_pulls(), 1u);
  EXPECT_THAT(shard.core().LateWorkers(), ElementsAre(1u));
  // The last push of the clock applies it and answers waiting pulls at once.
  const auto out = shard.Send(ShardFixture::PushOf(1, 1, 1, {{0, {2, 2, 2, 2}}}));
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[1].to, 0u);
  EXPECT_EQ(Floats(out[1].message.payloads[0])[0], -3);
  EXPECT_EQ(shard.core().waiting_pulls(), 0u);
  EXPECT_THAT(shard.core().LateWorkers(), IsEmpty());
}

TEST(ShardClock, WithABoundOnlyAWorkerBeyondItWaitsForTheSlowest) {
  ShardFixture shard({.staleness = 1});
  shard.Start(3);
  for (const uint64_t clock : {1, 2}) {
    shard.Acknowledged(ShardFixture::PushOf(0, clock, clock, {{0, {1, 1, 1, 1}}}));
    const bool waits = shard.Send(ShardFixture::PullOf(0, clock, clock)).empty();
    EXPECT_EQ(waits, clock == 2);
    EXPECT_EQ(shard.core().LateWorkers().empty(), !waits);
  }
  shard.Acknowledged(ShardFixture::PushOf(2, 1, 1, {{0, {1, 1, 1, 1}}}));
  EXPECT_THAT(shard.core().LateWorkers(), ElementsAre(1u));
}

TEST(ShardClock, MeanDividesByThoseWhoContributed) {
  Config config;
  config.mutable_consistency()->set_reduction(ConsistencyConfig::MEAN);
  ShardFixture shard({.staleness = 0}, config);
  shard.Start(3);
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {2, 2, 2, 2}}}));
  shard.Acknowledged(ShardFixture::PushOf(1, 1, 1, {}));  // no batch is left for worker 1
  shard.Acknowledged(ShardFixture::PushOf(2, 1, 1, {{0, {4, 4, 4, 4}}}));
  EXPECT_EQ(shard.Weights(0), (Values{-3, -3, -3, -3}));
}

TEST(ShardClock, ALateJoinerTakesPartFromItsSegmentOn) {
  for (const int64_t staleness : {int64_t{0}, int64_t{1}}) {
    ShardFixture shard({.staleness = staleness});
    shard.Install();
    shard.Admit(0);
    shard.Begin(0, 2, {0});
    shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1, 1, 1, 1}}}));
    shard.Admit(1);
    EXPECT_EQ(shard.core().SlowestClock(), 1u);  // worker 1 holds nobody back yet
    shard.Begin(2, 2, {0, 1});
    // Worker 1 may not start before the others reached its first clock (less the bound).
    EXPECT_EQ(shard.Send(ShardFixture::PullOf(1, 1, 2)).size(), staleness == 0 ? 0u : 1u);
    shard.Send(ShardFixture::PushOf(0, 2, 2, {{0, {1, 1, 1, 1}}}));
    EXPECT_EQ(shard.core().SlowestClock(), 2u);
    EXPECT_EQ(shard.core().waiting_pulls(), 0u);
    // From now on both workers count.
    shard.Acknowledged(ShardFixture::PushOf(0, 3, 3, {{0, {1, 1, 1, 1}}}));
    EXPECT_EQ(shard.core().SlowestClock(), 2u);
    shard.Acknowledged(ShardFixture::PushOf(1, 1, 3, {{0, {1, 1, 1, 1}}}));
    EXPECT_EQ(shard.core().SlowestClock(), 3u);
    EXPECT_EQ(shard.Weights(0), (Values{-4, -4, -4, -4}));
  }
}

TEST(ShardClock, ADeadWorkerReleasesTheOthers) {
  for (const int64_t staleness : {int64_t{0}, int64_t{2}}) {
    ShardFixture shard({.staleness = staleness});
    shard.Start(2);
    for (uint64_t clock = 1; clock <= 3; ++clock) {
      shard.Acknowledged(ShardFixture::PushOf(0, clock, clock, {{0, {1, 1, 1, 1}}}));
    }
    // Half a clock of the other worker: it is acknowledged, so it counts.
    shard.Acknowledged(ShardFixture::PushOf(1, 1, 1, {{0, {10, 10, 10, 10}}}, false));
    EXPECT_TRUE(shard.Send(ShardFixture::PullOf(0, 1, 3)).empty());
    shard.Remove(1);
    const auto out = shard.TakeOut();
    ASSERT_EQ(out.size(), 1u);
    EXPECT_EQ(out[0].message.header.pull_reply().slowest_clock(), 3u);
    EXPECT_EQ(shard.Weights(0), (Values{-13, -13, -13, -13}));
  }
}

TEST(ShardClock, WhenAllAreDeadANewOneGoesOnFromItsSegment) {
  for (const int64_t staleness : {int64_t{0}, int64_t{1}}) {
    ShardFixture shard({.staleness = staleness});
    shard.Start(2);
    shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1, 1, 1, 1}}}));
    shard.Acknowledged(ShardFixture::PushOf(1, 1, 1, {{0, {1, 1, 1, 1}}}));
    shard.Acknowledged(ShardFixture::PushOf(0, 2, 2, {{0, {1, 1, 1, 1}}}));
    shard.Remove(0);
    shard.Remove(1);
    shard.Admit(0, 2);
    shard.Begin(1000, 10, {0});
    ASSERT_EQ(shard.Send(ShardFixture::PullOf(0, 1, 1000, 2)).size(), 1u);
    shard.Acknowledged(ShardFixture::PushOf(0, 1, 1001, {{0, {1, 1, 1, 1}}}, true, 2));
    EXPECT_EQ(shard.core().SlowestClock(), 1001u);
    EXPECT_EQ(shard.Weights(0), (Values{-4, -4, -4, -4}));
  }
}

TEST(ShardClock, WhatTheDueClockNeedsIsNeverSentAway) {
  // There is room for less than one push, but the clock that all wait for must come in.
  ShardFixture shard({.staleness = 0, .held_bytes = 10});
  shard.Start(3);
  EXPECT_EQ(shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1, 1, 1, 1}}})), 2u);
  EXPECT_EQ(shard.Refused(ShardFixture::PushOf(0, 2, 2, {{0, {1, 1, 1, 1}}})).reason(),
            Refusal::OVERLOADED);
  EXPECT_EQ(shard.Acknowledged(ShardFixture::PushOf(1, 1, 1, {{0, {1, 1, 1, 1}}})), 2u);
  EXPECT_EQ(shard.Acknowledged(ShardFixture::PushOf(2, 1, 1, {{0, {1, 1, 1, 1}}})), 2u);
  EXPECT_EQ(shard.Weights(0), (Values{-3, -3, -3, -3}));
  // The refused push used no number, and is accepted now.
  EXPECT_EQ(shard.Acknowledged(ShardFixture::PushOf(0, 2, 2, {{0, {1, 1, 1, 1}}})), 3u);
}

TEST(ShardClock, TheRateFollowsTheClockThroughSegments) {
  Config config;
  // The rate halves after the second epoch. An epoch is two clocks in the first segment, four
  // later.
  config.mutable_schedule()->mutable_multistep()->add_at()->set_epochs(2);
  config.mutable_schedule()->mutable_multistep()->set_factor(0.5);
  config.mutable_train()->set_epochs(10);
  ShardFixture shard({.staleness = -1, .elements = {1}}, config);
  shard.Install();
  shard.Admit(0);
  BeginSegment first;
  first.segment.set_clocks(2);
  first.segment.add_workers(0);
  first.segment.set_epochs_per_clock(0.5);
  ASSERT_TRUE(shard.Execute(first).ok());
  BeginSegment second;
  second.segment.set_first_clock(2);
  second.segment.set_clocks(100);
  second.segment.add_workers(0);
  second.segment.set_epoch_at_start(1);
  second.segment.set_epochs_per_clock(0.25);
  ASSERT_TRUE(shard.Execute(second).ok());
  float before = 0;
  for (uint64_t clock = 1; clock <= 10; ++clock) {
    shard.Acknowledged(ShardFixture::PushOf(0, clock, clock, {{0, {1}}}));
    const float step = before - shard.Weights(0)[0];
    before = shard.Weights(0)[0];
    // Clocks 1, 2: epochs 0, 0.5; clock 3: epoch 1; clock 7: epoch 2.
    EXPECT_EQ(step, clock < 7 ? 1.0f : 0.5f) << clock;
  }
}

TEST(ShardClock, ChangedHyperParametersTakeEffect) {
  ShardFixture shard({.staleness = 4, .elements = {1}});
  shard.Start(1);
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1}}}));
  ChangeHyper change;
  change.hyper.set_version(2);
  change.hyper.set_learning_rate(0.25);
  ASSERT_TRUE(shard.Execute(change).ok());
  shard.Acknowledged(ShardFixture::PushOf(0, 2, 2, {{0, {1}}}));
  EXPECT_EQ(shard.Weights(0), Values{-1.25f});
}

TEST(ShardClock, ScaleCompensationDividesByOnePlusStaleness) {
  Config config;
  config.mutable_consistency()->set_compensation(ConsistencyConfig::SCALE);
  ShardFixture shard({.staleness = -1, .elements = {1}}, config);
  shard.Start(2);
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1}}}));
  shard.Acknowledged(ShardFixture::PushOf(0, 2, 2, {{0, {1}}}));  // base version 0: 1 behind
  EXPECT_EQ(shard.Weights(0), Values{-1.5f});
  shard.Acknowledged(ShardFixture::PushOf(1, 1, 1, {{0, {8}}}));  // 2 behind
  EXPECT_EQ(shard.Weights(0), Values{-1.5f - 8.0f * (1.0f / 3.0f)});
}

TEST(ShardClock, ScaleCompensationWithLocalStepsLeavesPushesInTimeAsTheyAre) {
  Config config;
  config.mutable_consistency()->set_compensation(ConsistencyConfig::SCALE);
  config.mutable_local()->set_steps(2);
  ShardFixture shard({.staleness = -1, .elements = {1}}, config);
  shard.Start(2);
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1}}}));
  shard.Acknowledged(ShardFixture::PushOf(1, 1, 1, {{0, {1}}}));  // 1 behind, as each is
  EXPECT_EQ(shard.Weights(0), Values{-2});
  shard.Acknowledged(ShardFixture::PushOf(0, 2, 2, {{0, {1}}}));  // 2 behind
  EXPECT_EQ(shard.Weights(0), Values{-2.5f});
}

// Entries of version 2 of the journal's format.
TEST(ShardClock, StepsOfAnEarlierVersionThatWouldMakeOtherWeightsAreRefused) {
  Config scales, late;
  scales.mutable_consistency()->set_compensation(ConsistencyConfig::SCALE);
  late.mutable_consistency()->set_quorum(1);
  const auto replay = [](const Config& config, int64_t staleness) {
    const FixtureOptions options{.staleness = staleness, .elements = {1}, .journal = true};
    ShardFixture shard(options, config);
    shard.Start(1);
    shard.core().TakeJournal();
    ShardFixture again(options, config);
    EXPECT_TRUE(again.core().Restore(shard.core().MakeImage()).ok());
    shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1}}}));
    JournalEntry entry = shard.core().TakeJournal().at(0);
    entry.earlier_rules = true;
    return again.core().Replay(entry);
  };
  EXPECT_TRUE(replay(scales, -1).ok());
  scales.mutable_local()->set_steps(2);
  for (const absl::Status& refused : {replay(scales, -1), replay(late, 0)}) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.message()),
                testing::AllOf(testing::HasSubstr("an earlier version of psgd"),
                               testing::HasSubstr("with ps-run --resume")));
  }
}

TEST(ShardClock, DelayCompensationUsesTheWeightsThatWerePulled) {
  Config config;
  config.mutable_consistency()->set_compensation(ConsistencyConfig::DELAY);
  config.mutable_consistency()->set_delay_lambda(0.5);
  ShardFixture shard({.staleness = -1, .elements = {1}}, config);
  shard.Start(2);
  ASSERT_EQ(shard.Send(ShardFixture::PullOf(0, 1, 0)).size(), 1u);  // worker 0 holds w = 0
  shard.Acknowledged(ShardFixture::PushOf(1, 1, 1, {{0, {4}}}));    // w = -4 now
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {2}}}));
  // g + lambda * g * g * (now - then) = 2 + 0.5 * 4 * (-4 - 0) = -6
  EXPECT_EQ(shard.Weights(0), Values{-4 + 6});
}

TEST(ShardClock, DelayCompensationIgnoresWeightsTheWorkerDidNotUse) {
  Config config;
  config.mutable_consistency()->set_compensation(ConsistencyConfig::DELAY);
  config.mutable_consistency()->set_delay_lambda(0.5);
  ShardFixture shard({.staleness = -1, .elements = {1}}, config);
  shard.Start(2);
  shard.Send(ShardFixture::PullOf(0, 1, 0));
  shard.Acknowledged(ShardFixture::PushOf(1, 1, 1, {{0, {4}}}));
  shard.Send(ShardFixture::PullOf(0, 1, 0));  // its repetition is answered with version 1
  shard.Acknowledged(ShardFixture::PushOf(1, 2, 2, {{0, {4}}}));
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {2}}}));  // computed with version 0
  EXPECT_EQ(shard.Weights(0), Values{-8 - 2});
}

TEST(ShardClock, StatisticsAreAddedAsTheyAre) {
  ShardFixture shard({.staleness = 4, .elements = {2}});
  auto model = std::make_shared<ModelSpec>(*shard.install().model);
  model->mutable_parameters(0)->set_role(ParameterSpec::STATISTIC);
  shard.install().model = model;
  shard.Start(1);
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {0.5f, -2}}}));
  EXPECT_EQ(shard.Weights(0), (Values{0.5f, -2}));
}

// With local steps a worker's change counts as its steps do, also when another is gone.
TEST(ShardClock, ChangesAreWeighedByTheStepsBehindThem) {
  Config config;
  config.mutable_consistency()->set_reduction(ConsistencyConfig::MEAN);
  for (const int64_t staleness : {0, 4}) {
    ShardFixture shard({.staleness = staleness, .elements = {1}}, config);
    shard.Start(2, {30, 10});
    shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {8}}}));
    shard.Acknowledged(ShardFixture::PushOf(1, 1, 1, {{0, {16}}}));
    EXPECT_EQ(shard.Weights(0), Values{-(0.75f * 8 + 0.25f * 16)}) << staleness;
    shard.Remove(1);
    shard.Acknowledged(ShardFixture::PushOf(0, 2, 2, {{0, {8}}}));
    EXPECT_EQ(shard.Weights(0), Values{-10 - 8}) << staleness;
  }
}

}  // namespace
}  // namespace psgd
