#include "server/coordinator/run_totals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "common/latency.h"
#include "proto/trained.h"

namespace psgd {
namespace {

using ::testing::ElementsAre;

constexpr Time kStart = std::chrono::hours(1);

Time After(int seconds) { return kStart + std::chrono::seconds(seconds); }

WorkerReport Report(uint64_t clock, uint64_t samples) {
  WorkerReport report;
  report.set_clock(clock);
  report.set_samples(samples);
  return report;
}

StatusReply Shown(const RunTotals& totals, Time now) {
  StatusReply status;
  totals.Show(now, &status);
  return status;
}

TEST(RunTotalsTest, AddsReportsUp) {
  RunTotals totals;
  WorkerReport first = Report(5, 100);
  first.add_pull_staleness(2);
  (*first.mutable_refused())["non_finite"] = 1;
  WorkerReport second = Report(3, 50);
  second.add_pull_staleness(1);
  second.add_pull_staleness(4);
  (*second.mutable_refused())["non_finite"] = 2;
  totals.Count(first);
  totals.Count(second);
  const StatusReply status = Shown(totals, kStart);
  EXPECT_EQ(status.clock(), 5u) << "that of the worker that is furthest";
  EXPECT_EQ(status.total().samples(), 150u);
  EXPECT_EQ(status.total().refused().at("non_finite"), 3u);
  EXPECT_THAT(status.total().pull_staleness(), ElementsAre(3, 4));
  EXPECT_EQ(totals.sum().pull_staleness_size(), 0);
}

// Counters only grow; what is said of the trained run lacks the steps that workers took in vain.
TEST(RunTotalsTest, LocalStepsTakenInVainCountApart) {
  RunTotals totals;
  totals.Count(Report(1, 100));
  WorkerReport unpushed;
  unpushed.set_steps(2);
  unpushed.set_samples(30);
  unpushed.set_bytes_pushed_dense(1'000'000);  // never more than there were
  totals.CountGone(unpushed, 0);
  totals.CountGone({}, 0);
  EXPECT_EQ(totals.sum().samples(), 100u);
  EXPECT_EQ(Trained(totals.sum()).samples(), 70u);
  EXPECT_EQ(Trained(totals.sum()).bytes_pushed_dense(), 0u);
  EXPECT_FALSE(Trained(totals.sum()).has_unpushed());
}

TEST(RunTotalsTest, TheFirstLossIsThatOfTheFirstReport) {
  RunTotals totals;
  totals.Count(Report(1, 10));
  EXPECT_FALSE(totals.sum().has_first_loss());
  for (const double loss : {2.5, 9.0}) {
    WorkerReport report;
    report.set_first_loss(loss);
    totals.Count(report);
  }
  EXPECT_EQ(totals.sum().first_loss(), 2.5);
}

TEST(RunTotalsTest, LostResidualsAddUpAsNorms) {
  RunTotals totals;
  WorkerReport report;
  report.set_residual_norm_lost(3);
  totals.Count(report);
  totals.CountGone({}, 4);
  report.set_residual_norm_lost(std::numeric_limits<double>::infinity());
  totals.Count(report);
  EXPECT_DOUBLE_EQ(totals.sum().residual_norm_lost(), 5);
}

TEST(RunTotalsTest, AHostileHistogramTakesNoMemory) {
  RunTotals totals;
  WorkerReport report;
  for (int i = 0; i < 100000; ++i) {
    report.add_pull_staleness(1);
    report.add_push_latency(1);
  }
  totals.Count(report);
  const WorkerReport total = Shown(totals, kStart).total();
  EXPECT_LE(total.pull_staleness_size(), static_cast<int>(CountHistogram::kLargest + 1));
  EXPECT_LE(total.push_latency_size(), static_cast<int>(kLatencyBins));
}

TEST(RunTotalsTest, TimeCountsFromTheFirstStartToTheEnd) {
  RunTotals totals;
  EXPECT_EQ(totals.SecondsTrained(After(1)), 0);
  totals.Start(After(1));
  totals.Start(After(2));
  EXPECT_DOUBLE_EQ(totals.SecondsTrained(After(4)), 3);
  totals.End(After(5));
  EXPECT_DOUBLE_EQ(totals.SecondsTrained(After(9)), 4);
}

TEST(RunTotalsTest, ARunGoesOnFromTheTotalOfACheckpoint) {
  WorkerReport before = Report(7, 70);
  before.set_residual_norm(2);
  EvalResult evaluation;
  evaluation.set_epoch(1);
  RunTotals totals;
  totals.GoOnFrom(before, {evaluation});
  totals.Count(Report(8, 10));
  EXPECT_EQ(totals.sum().samples(), 80u);
  EXPECT_EQ(totals.samples_before(), 70u);
  EXPECT_EQ(totals.sum().residual_norm(), 0) << "the workers that had it are gone";
  EXPECT_EQ(totals.evaluations().size(), 1u);
  EXPECT_EQ(totals.SecondsTrained(After(1)), 0);
}

TEST(RunTotalsTest, GoesOnFromItsRecord) {
  RunTotals totals;
  totals.GoOnFrom(Report(1, 10), {});
  totals.Start(kStart);
  WorkerReport report = Report(2, 20);
  report.add_pull_staleness(1);
  totals.Count(report);
  totals.CountEvaluation(EvalResult());
  CoordinatorRecord record;
  totals.Save(After(6), &record);
  RunTotals again;
  again.Restore(record, After(100));
  EXPECT_TRUE(again.sum().counts_incomplete()) << "the record may be a second old";
  CoordinatorRecord same;
  again.Save(After(100), &same);
  RunTotals ended = again;
  ended.End(After(101));
  ended.Save(After(102), &record);
  RunTotals third;
  third.Restore(record, After(103));
  EXPECT_TRUE(third.sum().counts_incomplete()) << "a later server knows it, too";
  RunTotals resumed;
  resumed.GoOnFrom(third.sum(), {});
  EXPECT_TRUE(resumed.sum().counts_incomplete());
  totals.Save(After(6), &record);
  record.mutable_total()->set_counts_incomplete(true);
  EXPECT_EQ(same.SerializeAsString(), record.SerializeAsString());
  EXPECT_DOUBLE_EQ(again.SecondsTrained(After(101)), 7) << "time without a server does not count";
}

}  // namespace
}  // namespace psgd
