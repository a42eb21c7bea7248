#include "server/coordinator/checkpoint_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/server/coordinator/batches.h"

namespace psgd {
namespace {

using ::testing::UnorderedElementsAre;

constexpr uint32_t kBatches = 8;  // an epoch

Progress Every(double epochs, int64_t steps = 0) {
  Progress every;
  if (steps > 0) {
    every.set_steps(steps);
  } else {
    every.set_epochs(epochs);
  }
  return every;
}

// `left`: of the epoch's batches.
LedgerPosition At(uint32_t epoch, uint64_t clock, size_t left) {
  LedgerPosition position{epoch, clock, clock, BatchQueue::UpTo(kBatches)};
  position.remaining.Take(kBatches - left);
  return position;
}

uint64_t BeginAt(CheckpointSchedule& schedule, const LedgerPosition& position, uint64_t after,
                 bool last = false) {
  CoordinatorSnapshot state;
  state.position = position;
  return schedule.Begin(std::move(state), after, last);
}

TEST(CheckpointScheduleTest, IsDueByEpochsSinceTheLatestCheckpoint) {
  CheckpointSchedule schedule(Every(0.5));
  EXPECT_FALSE(schedule.Due(At(0, 3, 5), kBatches));
  EXPECT_TRUE(schedule.Due(At(0, 4, 4), kBatches));
  EXPECT_EQ(BeginAt(schedule, At(0, 5, 3), 1), 1u);
  EXPECT_FALSE(schedule.Due(At(1, 16, 0), kBatches)) << "one is under way";
  EXPECT_TRUE(schedule.End(1));
  EXPECT_FALSE(schedule.Due(At(0, 8, 0), kBatches));
  EXPECT_TRUE(schedule.Due(At(1, 9, 7), kBatches));
}

TEST(CheckpointScheduleTest, IsDueBySteps) {
  CheckpointSchedule schedule(Every(0, 6));
  schedule.GoOnFrom(4, At(0, 10, 2));
  EXPECT_FALSE(schedule.Due(At(1, 15, 5), kBatches));
  EXPECT_TRUE(schedule.Due(At(1, 16, 4), kBatches));
  EXPECT_EQ(BeginAt(schedule, At(1, 16, 4), 1), 5u);
}

TEST(CheckpointScheduleTest, ARequestAndItsNameAreForTheNextCheckpoint) {
  CheckpointSchedule schedule(Every(0));
  EXPECT_FALSE(schedule.Due(At(9, 99, 0), kBatches));
  EXPECT_EQ(*schedule.Request(""), 1u);
  EXPECT_EQ(*schedule.Request("good"), 1u);
  EXPECT_TRUE(absl::IsFailedPrecondition(schedule.Request("other").status()));
  EXPECT_TRUE(schedule.Due(At(0, 1, 7), kBatches));
  BeginAt(schedule, At(0, 1, 7), 1);
  EXPECT_EQ(schedule.under_way()->name, "good");
  EXPECT_EQ(*schedule.Request("other"), 2u);
  EXPECT_FALSE(schedule.Due(At(0, 2, 6), kBatches)) << "one is under way";
  EXPECT_FALSE(schedule.End(2));
  EXPECT_TRUE(schedule.End(1));
  EXPECT_TRUE(schedule.Due(At(0, 2, 6), kBatches));
}

TEST(CheckpointScheduleTest, TheOneUnderWayListsBatchesThatAWorkerLeftUndone) {
  CheckpointSchedule schedule(Every(0));
  schedule.GiveBack({1, 0, 0});  // there is none yet
  BeginAt(schedule, At(1, 8, 1), 2);
  EXPECT_TRUE(schedule.EndsAfter(2));
  EXPECT_FALSE(schedule.EndsAfter(3));
  schedule.GiveBack({2, 1, 3});
  schedule.GiveBack({3, 1, 4});  // of a segment behind the boundary
  schedule.GiveBack({1, 0, 5});  // of an earlier epoch
  EXPECT_THAT(Batches(schedule.under_way()->position.remaining), UnorderedElementsAre(3, 7));
  EXPECT_EQ(schedule.under_way()->position.repeated, 1u);
  EXPECT_TRUE(schedule.End(1));
  EXPECT_FALSE(schedule.EndsAfter(2));
}

TEST(CheckpointScheduleTest, TheLastCheckpointIsTakenOnce) {
  CheckpointSchedule schedule(Every(0));
  EXPECT_TRUE(schedule.LacksLast());
  BeginAt(schedule, At(0, 1, 7), 1);
  EXPECT_FALSE(schedule.LacksLast()) << "one is under way";
  EXPECT_TRUE(schedule.End(1));
  EXPECT_TRUE(schedule.LacksLast());
  BeginAt(schedule, At(0, 8, 0), 2, /*last=*/true);
  EXPECT_TRUE(schedule.End(2));
  EXPECT_FALSE(schedule.LacksLast());
}

TEST(CheckpointScheduleTest, GoesOnFromItsRecord) {
  CheckpointSchedule schedule(Every(0));
  BeginAt(schedule, At(0, 4, 4), 1, /*last=*/true);
  ASSERT_TRUE(schedule.Request("next").ok());
  CoordinatorRecord record;
  schedule.Save(&record);
  CheckpointSchedule again(Every(0));
  again.Restore(record);
  CoordinatorRecord same;
  again.Save(&same);
  EXPECT_EQ(same.SerializeAsString(), record.SerializeAsString());
  EXPECT_TRUE(again.EndsAfter(1));
  EXPECT_TRUE(again.End(1));
  EXPECT_FALSE(again.LacksLast());
  EXPECT_EQ(BeginAt(again, At(1, 9, 7), 2), 2u);
  EXPECT_EQ(again.under_way()->name, "next");
}

}  // namespace
}  // namespace psgd
