// Which segment a clock is of, and with which rate and how many steps it counts.
#include "server/shard/clock_schedule.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

Config HalvedAfterTwoEpochs() {
  Config config;
  config.mutable_schedule()->mutable_multistep()->add_at()->set_epochs(2);
  config.mutable_schedule()->mutable_multistep()->set_factor(0.5);
  config.mutable_train()->set_epochs(10);
  return config;
}

class ClockScheduleTest : public testing::Test {
 protected:
  ClockScheduleTest() {
    HyperParameters hyper;
    hyper.set_learning_rate(4);
    hyper.set_weight_decay(0.25);
    schedule_.SetHyper(hyper);
  }
  void Begin(uint64_t id, uint64_t first_clock, uint32_t clocks, uint64_t slowest) {
    Segment segment;
    segment.set_id(id);
    segment.set_first_clock(first_clock);
    segment.set_clocks(clocks);
    schedule_.Begin(segment, slowest);
  }
  // 0: not known.
  uint64_t SegmentOf(uint64_t clock) const {
    const Segment* const segment = schedule_.SegmentOf(clock);
    return segment == nullptr ? 0 : segment->id();
  }

  const Config config_ = HalvedAfterTwoEpochs();
  ClockSchedule schedule_{config_};
};

TEST_F(ClockScheduleTest, AClockIsOfTheSegmentWhoseStepLeadsToIt) {
  Begin(1, 10, 5, 10);
  EXPECT_EQ(SegmentOf(10), 0u) << "its step was before";
  EXPECT_EQ(SegmentOf(11), 1u);
  Begin(2, 15, 5, 10);
  EXPECT_EQ(SegmentOf(15), 1u);
  EXPECT_EQ(SegmentOf(16), 2u);
}

TEST_F(ClockScheduleTest, SegmentsThatEveryWorkerHasLeftAreForgotten) {
  Begin(1, 0, 5, 0);
  Begin(2, 5, 5, 4);
  EXPECT_EQ(SegmentOf(5), 1u) << "the slowest takes this step next";
  Begin(3, 10, 5, 5);
  EXPECT_EQ(SegmentOf(5), 0u);
  EXPECT_EQ(SegmentOf(6), 2u);
  Begin(4, 15, 5, UINT64_MAX);
  EXPECT_EQ(SegmentOf(15), 0u);
  EXPECT_EQ(SegmentOf(16), 4u) << "the last one stays";
}

TEST_F(ClockScheduleTest, EachWorkerHasStepsOfItsOwn) {
  EXPECT_EQ(schedule_.StepsOf(2, 1), 1u);
  Segment segment;
  for (const uint32_t worker : {2, 5}) segment.add_workers(worker);
  schedule_.Begin(segment, 0);
  EXPECT_EQ(schedule_.StepsOf(5, 1), 1u) << "without local steps";
  for (const uint32_t steps : {30, 8}) segment.add_steps(steps);
  schedule_.Begin(segment, 0);
  EXPECT_EQ(schedule_.StepsOf(2, 1), 30u);
  EXPECT_EQ(schedule_.StepsOf(5, 1), 8u);
  for (const uint32_t stranger : {0, 3, 6}) EXPECT_EQ(schedule_.StepsOf(stranger, 1), 1u);
}

TEST_F(ClockScheduleTest, TheRateIsThatOfTheEpochBeforeTheStep) {
  Segment segment;
  segment.set_first_clock(100);
  segment.set_epoch_at_start(1);
  segment.set_epochs_per_clock(0.25);
  schedule_.Begin(segment, 100);
  EXPECT_EQ(schedule_.RatesAt(104).learning_rate, 4) << "epoch 1.75";
  EXPECT_EQ(schedule_.RatesAt(105).learning_rate, 2) << "epoch 2";
  EXPECT_EQ(schedule_.RatesAt(105).weight_decay, 0.25);
}

TEST_F(ClockScheduleTest, GoesOnFromItsRecord) {
  Begin(1, 0, 5, 0);
  Begin(2, 5, 5, 0);
  ShardRecord record;
  schedule_.Save(&record);
  ClockSchedule again(config_);
  again.Restore(record);
  EXPECT_EQ(again.SegmentOf(5)->id(), 1u);
  EXPECT_EQ(again.SegmentOf(6)->id(), 2u);
  EXPECT_EQ(again.RatesAt(1).learning_rate, 4);
}

}  // namespace
}  // namespace psgd
