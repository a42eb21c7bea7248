#include "experiment/sweep/trial_speed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiment/sweep/estimate.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Two workers with 32 samples per step.
TrialMark After(double seconds, double steps, double training, double computing, double cpu) {
  return {seconds, steps, 32 * steps, training, computing, cpu};
}

TEST(TrialSpeed, TheStartAndWhatPassesBetweenStepsAreNoPartOfTheRate) {
  // It trained 1 s until the first record, which came 9 s after the start, and 2 s in the 5 s after
  // that record.
  const TrialSpeed speed = SpeedBetween(After(9, 10, 2, 2, 2), After(14, 50, 6, 6, 6),
                                        {.workers = 2, .threads = 1, .cores = 2});
  EXPECT_DOUBLE_EQ(speed.samples_per_second, 32 * 40 / 2.0);
  EXPECT_DOUBLE_EQ(speed.before, 8);
  EXPECT_EQ(speed.at_best, 0);
  EXPECT_DOUBLE_EQ(speed.SecondsFor(6400), 18);
  EXPECT_DOUBLE_EQ(speed.SecondsAtBest(6400), 18);
}

// Other programs slow the steps down; the speed without them is reported separately.
TEST(TrialSpeed, AMachineThatOthersKeepBusyIsTold) {
  const TrialPlace place{.workers = 1, .threads = 2, .cores = 2};
  const TrialSpeed speed = SpeedBetween({}, After(20, 20, 20, 20, 4), place);
  EXPECT_DOUBLE_EQ(speed.samples_per_second, 32);
  EXPECT_DOUBLE_EQ(speed.at_best, 32 * 20 / 4.0 * 2);
  EXPECT_DOUBLE_EQ(speed.SecondsAtBest(3200), 10);
  // Waiting for a link needs no CPU, and neither does a GPU.
  EXPECT_EQ(SpeedBetween({}, After(20, 20, 20, 4, 4), place).at_best, 0);
  EXPECT_EQ(
      SpeedBetween({}, After(20, 20, 20, 20, 4), {.threads = 2, .cores = 2, .gpus = true}).at_best,
      0);
}

// Workers that outnumber the cores share them; that is not the fault of other programs.
TEST(TrialSpeed, OwnWorkersMayShareACore) {
  const TrialPlace place{.workers = 4, .threads = 1, .cores = 1};
  EXPECT_EQ(SpeedBetween({}, After(10, 100, 40, 40, 10), place).at_best, 0);
  EXPECT_GT(SpeedBetween({}, After(10, 100, 40, 40, 2), place).at_best, 0);
}

TEST(TrialSpeed, ReadsRecords) {
  const Record record = Record::parse(
      R"({"seconds":5,"steps":7,"samples":70,"seconds_data":0.25,"seconds_compute":1,"seconds_encode":0.5,)"
      R"("seconds_wait":1,"seconds_wire":0.5,"seconds_apply":0.25,"seconds_cpu":1.25})");
  const TrialMark mark = TrialMark::Of(record);
  EXPECT_EQ(mark.seconds, 5);
  EXPECT_EQ(mark.steps, 7);
  EXPECT_EQ(mark.samples, 70);
  EXPECT_EQ(mark.training, 3.5);
  EXPECT_EQ(mark.computing, 1.5);
  EXPECT_EQ(mark.cpu, 1.25);
}

TEST(Estimate, SaysThatTheMachineIsBusyAndWhatAshaMayLeaveOut) {
  SweepEstimate estimate;
  estimate.runs = 2;
  estimate.samples = 1000;
  estimate.seconds = 7200;
  estimate.kinds = estimate.tried = 1;
  EXPECT_THAT(EstimateText(estimate, 1),
              AllOf(HasSubstr("About 2:00:00 with 1 run at a time, as 1 of 1 kind of runs went "
                              "here for a moment; evaluations"),
                    Not(HasSubstr("busy")), Not(HasSubstr("asha"))));
  estimate.seconds_at_best = 3600;
  estimate.stops_early = true;
  EXPECT_THAT(EstimateText(estimate, 2),
              HasSubstr("At best 30:00, and 1:00:00 as busy as this machine is now with something "
                        "else, with 2 runs at a "
                        "time, at most, for asha stops some, as 1 of 1 kind"));
  estimate.tried = 0;
  EXPECT_THAT(EstimateText(estimate, 2),
              HasSubstr("At the speed of those that are done: 1:00:00 with 2 runs at a time, at "
                        "most, for asha stops some."));
}

}  // namespace
}  // namespace psgd
