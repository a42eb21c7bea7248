#include "experiment/record/run_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd {
namespace {

using ::testing::HasSubstr;

TEST(SummaryOfARun, SaysThatTheLossExploded) {
  StatusReply status;
  status.mutable_config()->mutable_optimizer()->mutable_sgd()->set_learning_rate(8);
  const auto note = [&](double first, double last, bool tested) {
    status.mutable_total()->set_first_loss(first);
    status.clear_evaluations();
    status.set_train_loss(tested ? 1 : last);
    if (tested) status.add_evaluations()->set_loss(last);
    return SummaryOf(status, Summary::Status::kFinished, "", 1, 0).note;
  };
  EXPECT_THAT(
      note(2.5, 5e6, true),
      HasSubstr("the last test loss, 5e+06, is 2e+06 times the loss of the first step, 2.5; "
                "training diverged: lower the learning rate (optimizer.sgd.learning_rate "
                "is 8)"));
  EXPECT_THAT(note(2.5, 5e6, false), HasSubstr("the last training loss, 5e+06, is"));
  EXPECT_EQ(note(2.5, 2000, true), "");
  note(2.5, 0, true);
  status.set_train_loss(5e6);
  EXPECT_THAT(SummaryOf(status, Summary::Status::kFinished, "", 1, 0).note,
              HasSubstr("the last training loss"))
      << "a program that reports an accuracy alone";
  EXPECT_EQ(note(3.4e-7, 5.74, true), "") << "a first batch that a trained network knows";
  EXPECT_EQ(note(1e9, 3e11, true), "") << "a regression of large numbers on new data";
  status.mutable_total()->clear_first_loss();  // as of a run of an older version
  EXPECT_EQ(SummaryOf(status, Summary::Status::kFinished, "", 1, 0).note, "");
}

TEST(SummaryOfARun, HasTheRunsNotesAndTheTimeOfAllItsParts) {
  StatusReply status;
  status.set_codec_carries("0 of 4 tensors");
  status.mutable_total()->add_notes("one");
  status.mutable_total()->add_notes("two");
  const Summary whole = SummaryOf(status, Summary::Status::kFinished, "", 3, 0);
  EXPECT_EQ(whole.note, "one; two");
  EXPECT_EQ(whole.codec_carries, "0 of 4 tensors");
  EXPECT_EQ(whole.wall_seconds, 3);
  EXPECT_FALSE(whole.seconds_since_resume);
  const Summary resumed = SummaryOf(status, Summary::Status::kFinished, "", 3, 0, 50);
  EXPECT_EQ(resumed.wall_seconds, 53);
  EXPECT_EQ(resumed.seconds_since_resume, 3);
}

}  // namespace
}  // namespace psgd
