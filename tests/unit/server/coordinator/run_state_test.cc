// How a run ends, and which of two reasons counts.
#include "server/coordinator/run_state.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

DrainRequest Because(const std::string& reason, bool failed = false) {
  DrainRequest request;
  request.set_reason(reason);
  request.set_failed(failed);
  return request;
}

TEST(RunState, ARunThatIsAskedToEndFinishesWhatIsDealt) {
  RunState state;
  EXPECT_TRUE(state.waits());
  state.Train();
  EXPECT_TRUE(state.trains());
  EXPECT_TRUE(state.Drain(Because("")));
  EXPECT_EQ(state.state(), StatusReply::DRAINING);
  EXPECT_TRUE(state.asked_to_end());
  EXPECT_EQ(state.reason(), "asked to");
  EXPECT_FALSE(state.Drain(Because("again", true))) << "the first reason stands";
  EXPECT_EQ(state.reason(), "asked to");
  state.End();
  EXPECT_EQ(state.state(), StatusReply::FINISHED);
  EXPECT_TRUE(state.over());
  EXPECT_FALSE(state.Drain(Because("too late")));
}

TEST(RunState, ARunThatWaitsForWorkersDoesNotTrainBecauseItEnds) {
  RunState state;
  EXPECT_TRUE(state.Drain(Because("enough")));
  EXPECT_TRUE(state.waits());
  EXPECT_TRUE(state.draining());
}

TEST(RunState, AFailureCountsAlsoInARunThatStopsEarly) {
  RunState state;
  state.Train();
  state.StopEarly("no gain");
  EXPECT_TRUE(state.stopped_early());
  EXPECT_TRUE(state.draining());
  EXPECT_FALSE(state.asked_to_end());
  EXPECT_EQ(state.state(), StatusReply::DRAINING);
  EXPECT_TRUE(state.Drain(Because("a worker failed", true)));
  EXPECT_FALSE(state.stopped_early());
  EXPECT_TRUE(state.fails());
  EXPECT_EQ(state.reason(), "a worker failed");
  state.End();
  EXPECT_EQ(state.state(), StatusReply::FAILED);
}

TEST(RunState, GoesOnFromItsRecord) {
  for (const bool early : {false, true}) {
    RunState state;
    state.Train();
    if (early) {
      state.StopEarly("no gain");
    } else {
      state.Drain(Because("it failed", true));
    }
    CoordinatorRecord record;
    state.Save(&record);
    RunState again;
    again.Restore(record);
    EXPECT_EQ(again.state(), StatusReply::DRAINING);
    EXPECT_EQ(again.stopped_early(), early);
    EXPECT_EQ(again.asked_to_end(), !early);
    EXPECT_EQ(again.fails(), !early);
    EXPECT_EQ(again.reason(), early ? "no gain" : "it failed");
  }
}

}  // namespace
}  // namespace psgd
