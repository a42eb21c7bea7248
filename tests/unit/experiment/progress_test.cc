#include "experiment/launch/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/first_measure.h"
#include "experiment/record/readable.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

StatusReply Halfway() {
  StatusReply status;
  status.set_state(StatusReply::TRAINING);
  status.set_epoch(2.5);
  status.set_epochs(5);
  status.set_train_loss(0.4123);
  status.set_train_accuracy(0.851);
  status.mutable_total()->set_samples(150000);
  status.mutable_total()->set_bytes_pushed(20000000);
  status.mutable_total()->set_bytes_pushed_dense(1000000000);
  for (uint64_t count : {10, 20, 10}) status.mutable_total()->add_pull_staleness(count);
  EvalResult* result = status.add_evaluations();
  result->set_epoch(2);
  result->set_accuracy(0.846);
  result->set_loss(0.43);
  return status;
}

// A rate that finishes half of the run in 50 s.
ProgressRate Steady() {
  ProgressRate rate;
  StatusReply status = Halfway();
  for (int second = 0; second <= 50; ++second) {
    status.set_epoch(2.5 * second / 50);
    status.mutable_total()->set_samples(3000 * second);
    rate.Add(status, std::chrono::seconds(second));
  }
  return rate;
}

TEST(Progress, RateAndTimeLeft) {
  EXPECT_DOUBLE_EQ(Steady().samples_per_second(), 3000);
  EXPECT_NEAR(Steady().seconds_left(), 50, 1e-9);
  EXPECT_LT(ProgressRate().seconds_left(), 0);
  EXPECT_EQ(ProgressRate().samples_per_second(), 0);
}

TEST(Progress, BarSaysEverythingWhereThereIsRoom) {
  const std::string bar = ProgressBar(Halfway(), Steady(), 200, false);
  EXPECT_THAT(bar, AllOf(HasSubstr("[==============>...............]"), HasSubstr("epoch 2.50/5"),
                         HasSubstr("loss 0.412"), HasSubstr("train 85.1 %"),
                         HasSubstr("test 84.6 %"), HasSubstr("3.00 k samples/s"),
                         HasSubstr("stale 1.0/2"), HasSubstr("pushed 20.0 MB of 1.00 GB (50x)")));
  EXPECT_THAT(bar, EndsWith("ETA 50 s"));
}

TEST(Progress, WaitingForDataIsSaidOnceItMatters) {
  StatusReply status = Halfway();
  EXPECT_THAT(ProgressText(status, Steady()), Not(HasSubstr("data wait")));
  status.mutable_total()->set_seconds_compute(97);
  status.mutable_total()->set_seconds_data(3);
  EXPECT_THAT(ProgressText(status, Steady()), Not(HasSubstr("data wait")));
  status.mutable_total()->set_seconds_data(97);
  EXPECT_THAT(ProgressText(status, Steady()), HasSubstr("data wait 50 %"));
}

TEST(Progress, BarFitsEveryWidth) {
  for (int width = 1; width < 220; ++width) {
    const std::string bar = ProgressBar(Halfway(), Steady(), width, false);
    EXPECT_LT(bar.size(), static_cast<size_t>(width)) << bar;
  }
  // The most important parts are dropped last.
  EXPECT_THAT(ProgressBar(Halfway(), Steady(), 60, false),
              AllOf(HasSubstr("epoch 2.50/5"), HasSubstr("loss"), HasSubstr("ETA")));
}

TEST(Progress, ColourOnlyWhenAskedFor) {
  EXPECT_THAT(ProgressBar(Halfway(), Steady(), 100, true), HasSubstr("\033["));
  EXPECT_THAT(ProgressBar(Halfway(), Steady(), 100, false), Not(HasSubstr("\033[")));
}

TEST(Progress, StepsMayEndTheRunBeforeItsEpochs) {
  StatusReply status = Halfway();
  status.mutable_config()->mutable_train()->set_max_steps(100);
  status.set_clock(80);
  EXPECT_DOUBLE_EQ(ShareDone(status), 0.8);
  status.mutable_config()->mutable_local()->set_steps(100);
  status.mutable_config()->mutable_cluster()->set_workers(2);
  status.mutable_total()->set_steps(2 * status.config().train().max_steps() * 9 / 10);
  EXPECT_DOUBLE_EQ(ShareDone(status), 0.9);
  EXPECT_DOUBLE_EQ(ShareDone(StatusReply()), 0);
}

// The server may end before the last evaluation is shown. Then the evaluation comes from its
// record.
TEST(Progress, EveryEvaluationHasOneLine) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  EvalResult second, third;
  second.set_epoch(2);
  second.set_clock(200);
  third.set_epoch(3);
  third.set_clock(300);
  {
    ProgressOptions options;
    options.fd = fileno(file);
    ProgressDisplay display(options);
    StatusReply status;
    status.set_epochs(3);
    status.add_evaluations()->set_clock(100);  // from before the resume
    display.Update(status);
    *status.add_evaluations() = second;
    display.Update(status);
    display.Update(status);
    display.ShowEvaluations({status.evaluations(0), second, third}, 3);
  }
  std::string text(200, '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  EXPECT_EQ(text,
            "epoch 2/3: test loss 0.0000\n"
            "epoch 3/3: test loss 0.0000\n");
}

TEST(Readable, Figures) {
  EXPECT_EQ(ReadableCount(0), "0");
  EXPECT_EQ(ReadableCount(843), "843");
  EXPECT_EQ(ReadableCount(5123), "5.12 k");
  EXPECT_EQ(ReadableCount(60000), "60.0 k");
  EXPECT_EQ(ReadableTime(0.84), "0.8 s");
  EXPECT_EQ(ReadableTime(59.7), "1:00");
  EXPECT_EQ(ReadableTime(245), "4:05");
  EXPECT_EQ(ReadableTime(7400), "2:03:20");
  EXPECT_EQ(ReadablePercent(0.912), "91.20 %");
  EXPECT_EQ(ReadableLoss(0.52134), "0.5213");
  EXPECT_EQ(ReadableLoss(3.14159e58), "3.142e+58");
  EXPECT_EQ(ReadableEpoch(5), "5");
  EXPECT_EQ(ReadableEpoch(0.8203), "0.82");
  EXPECT_EQ(ReadableRatio(100, 0), "");
  EXPECT_EQ(ReadableRatio(100, 40), "2.5x");
}

TEST(Readable, TablesAlign) {
  TextTable table({"name", "count"});
  EXPECT_TRUE(table.empty());
  table.Add({"a", "5"});
  table.Add({"longer", "1234"});
  EXPECT_EQ(table.Text(),
            "  name    count\n"
            "  a           5\n"
            "  longer   1234\n");
}

}  // namespace
}  // namespace psgd
