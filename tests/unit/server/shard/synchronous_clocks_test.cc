// Which pushes the clocks of staleness 0 wait for, without a shard around them. The tests of
// ShardCore have the weights that come out.
#include "server/shard/synchronous_clocks.h"

#include "tests/unit/server/shard/shard_fixture.h"

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Config SummedByWorkers() {
  Config config;
  config.mutable_consistency()->set_staleness(0);
  config.mutable_consistency()->set_reduction(ConsistencyConfig::SUM);
  config.mutable_optimizer()->mutable_sgd()->set_learning_rate(1);
  return config;
}

// Two slices of one weight, which begin as 0.
class SynchronousClocksTest : public testing::Test {
 protected:
  SynchronousClocksTest() {
    EXPECT_TRUE(slices_.Install(ShardFixture({.elements = {1, 1}}).install()).ok());
    clocks_.MeetSlices();
    HyperParameters hyper;
    hyper.set_learning_rate(1);
    schedule_.SetHyper(hyper);
  }
  void Begin(uint64_t first_clock, const std::vector<uint32_t>& workers) {
    Segment segment;
    segment.set_first_clock(first_clock);
    segment.set_clocks(1000);
    segment.mutable_workers()->Assign(workers.begin(), workers.end());
    for (const uint32_t worker : workers) {
      if (!members_.contains(worker)) AdmitMember(ShardFixture::Key(worker), &members_);
    }
    BeginSegmentFor(segment, &members_);
    schedule_.Begin(segment, clocks_.completed());
    clocks_.LookAgain();
  }
  // Slices with their values.
  void Push(uint32_t worker, uint64_t clock,
            const std::vector<std::pair<uint32_t, std::vector<float>>>& parts, bool end = true) {
    Message message = ShardFixture::PushOf(worker, clock, clock, parts, end);
    auto opened = slices_.Open(&message);
    ASSERT_TRUE(opened.ok()) << opened.status();
    if (end) members_.at(worker).set_arrived_clock(clock);
    clocks_.Add(std::move(message), *std::move(opened));
    clocks_.Advance();
  }
  std::vector<float> Weights() const {
    return {slices_[0].weights.read()[0], slices_[1].weights.read()[0]};
  }

  const Config config_ = SummedByWorkers();
  ClockSchedule schedule_{config_};
  std::optional<CheckpointCut> cut_;
  SliceSet slices_{0, config_, kMostUnpacked};
  Members members_;
  SynchronousClocks clocks_{config_, schedule_, cut_, &slices_, &members_};
};

TEST_F(SynchronousClocksTest, ASliceThatEveryWorkerHasPushedIsAppliedAhead) {
  Begin(0, {0, 1});
  Push(0, 1, {{1, {1}}}, false);
  EXPECT_THAT(clocks_.TakeNewAhead(), IsEmpty());
  Push(1, 1, {{1, {10}}}, false);
  EXPECT_EQ(Weights(), (Values{0, -11}));
  EXPECT_FALSE(clocks_.IsAhead(0));
  EXPECT_TRUE(clocks_.IsAhead(1));
  EXPECT_THAT(clocks_.TakeNewAhead(), ElementsAre(1));
  EXPECT_THAT(clocks_.TakeNewAhead(), IsEmpty());
  EXPECT_EQ(clocks_.completed(), 0u);
  Push(0, 1, {{0, {2}}});
  EXPECT_EQ(clocks_.bytes(), sizeof(float));
  Push(1, 1, {{0, {20}}});
  EXPECT_EQ(Weights(), (Values{-22, -11}));
  EXPECT_EQ(clocks_.completed(), 1u);
  EXPECT_EQ(clocks_.bytes(), 0u);
  EXPECT_FALSE(clocks_.IsAhead(1)) << "the next clock has nothing yet";
  for (const auto& [worker, member] : members_) EXPECT_EQ(member.clock(), 1u);
}

TEST_F(SynchronousClocksTest, PushesOfLaterClocksWaitForTheirs) {
  Begin(0, {0, 1});
  for (uint64_t clock = 1; clock <= 3; ++clock) Push(0, clock, {{0, {1}}});
  EXPECT_EQ(Weights(), (Values{0, 0}));
  Push(1, 1, {{0, {10}}});
  EXPECT_EQ(clocks_.completed(), 1u);
  EXPECT_EQ(Weights(), (Values{-11, 0}));
  Push(1, 2, {});  // it has no batch
  EXPECT_EQ(clocks_.completed(), 2u);
  EXPECT_EQ(Weights(), (Values{-12, 0}));
}

TEST_F(SynchronousClocksTest, ClocksThatNobodyFillsAreSkipped) {
  Begin(10, {0});
  clocks_.Advance();
  EXPECT_EQ(clocks_.completed(), 10u);
  Push(0, 11, {{0, {1}}});
  EXPECT_EQ(clocks_.completed(), 11u);
  RemoveMember(ShardFixture::Key(0), &members_);
  clocks_.LookAgain();
  clocks_.Advance();
  EXPECT_EQ(clocks_.completed(), 11u) << "nobody says where the next worker begins";
  cut_.emplace(TakeCheckpoint{1, 15, {}}, slices_);
  clocks_.Advance();
  EXPECT_EQ(clocks_.completed(), 15u) << "the checkpoint waits for nobody";
}

TEST_F(SynchronousClocksTest, NothingBeyondACutIsApplied) {
  Begin(0, {0});
  cut_.emplace(TakeCheckpoint{1, 1, {}}, slices_);
  Push(0, 1, {{0, {1}}});
  Push(0, 2, {{0, {10}}});
  EXPECT_EQ(clocks_.completed(), 1u);
  EXPECT_EQ(Weights(), (Values{-1, 0}));
  EXPECT_FALSE(clocks_.MayClose());
  cut_.reset();
  clocks_.Advance();
  EXPECT_EQ(clocks_.completed(), 2u);
  EXPECT_EQ(Weights(), (Values{-11, 0}));
}

TEST_F(SynchronousClocksTest, AWorkerThatIsGoneHoldsNobodyUpAndItsPushCounts) {
  Begin(0, {0, 1, 2});
  Push(1, 1, {{0, {10}}});
  RemoveMember(ShardFixture::Key(1), &members_);
  clocks_.LookAgain();
  Push(0, 1, {{0, {1}}});
  EXPECT_EQ(clocks_.completed(), 0u);
  EXPECT_FALSE(clocks_.IsAhead(0)) << "two pushes, but one of the two workers that are left";
  Push(2, 1, {{0, {100}}});
  EXPECT_EQ(clocks_.completed(), 1u);
  EXPECT_EQ(Weights(), (Values{-111, 0}));
}

TEST_F(SynchronousClocksTest, WhatWaitsIsInTheRecord) {
  Begin(0, {0, 1});
  for (const uint32_t worker : {0, 1}) Push(worker, 1, {{0, {1}}});
  Push(0, 2, {{0, {1}}, {1, {2}}});
  ShardRecord record;
  clocks_.Save(&record);
  SynchronousClocks again(config_, schedule_, cut_, &slices_, &members_);
  ASSERT_TRUE(again.Restore(record).ok());
  EXPECT_EQ(again.completed(), 1u);
  EXPECT_EQ(again.bytes(), 2 * sizeof(float));
  members_.at(1).set_arrived_clock(2);
  again.Advance();
  EXPECT_EQ(again.completed(), 2u);
  EXPECT_EQ(Weights(), (Values{-3, -2}));
}

}  // namespace
}  // namespace psgd
