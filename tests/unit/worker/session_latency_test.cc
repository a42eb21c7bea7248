#include "common/latency.h"
#include "tests/unit/worker/session_fixture.h"
#include "train/step_trace.h"

namespace psgd {
namespace {

using std::chrono::milliseconds;

TEST_F(SessionTest, CountsHowLongAPushTakesFromWhenItFirstLeft) {
  PushAll(1);
  Drain();
  now_ += milliseconds(10);
  Ack(0, 2);
  EXPECT_EQ(core_->stats().push_latency.count(), 1u);
  EXPECT_NEAR(LatencyQuantile(core_->stats().push_latency, 1), 0.010, 0.004);
  // Shard 1 wants the push again. Its latency counts from the first send, not from the second.
  now_ += milliseconds(70);
  Refuse(1, Refusal::OVERLOADED, 1);
  now_ += milliseconds(20);
  Drain();
  Ack(1, 2);
  EXPECT_EQ(core_->stats().push_latency.count(), 2u);
  EXPECT_NEAR(LatencyQuantile(core_->stats().push_latency, 1), 0.100, 0.04);
}

TEST_F(SessionTest, CountsHowLongAPullTakesAtEachShard) {
  core_->Pull(0, now_);
  Drain();
  now_ += milliseconds(5);
  Weights(0, 1, {0, 2});
  EXPECT_EQ(core_->stats().pull_latency.count(), 0u);  // slice 4 is still missing
  now_ += milliseconds(5);
  Weights(0, 1, {4});
  EXPECT_NEAR(LatencyQuantile(core_->stats().pull_latency, 1), 0.010, 0.004);
  now_ += milliseconds(90);
  Weights(1, 1, {1, 3});
  EXPECT_EQ(core_->stats().pull_latency.count(), 2u);
  EXPECT_NEAR(LatencyQuantile(core_->stats().pull_latency, 1), 0.100, 0.04);
}

TEST(StepTrace, KeepsTheSpansOfTheFirstSteps) {
  StepTrace trace;
  WorkerReport report;
  trace.Add(TraceSpan::PULL, 1, Time(1), Time(2));
  trace.MoveTo(&report);
  EXPECT_EQ(report.spans_size(), 0);  // no trace was requested
  trace.Begin(2, 7);
  for (uint64_t clock = 41; clock < 45; ++clock)
    trace.Add(TraceSpan::COMPUTE, clock, Time(100), Time(150));
  DataHeader push;
  push.set_shard(3);
  push.mutable_push()->set_seq(9);
  push.mutable_push()->set_clock(42);
  trace.AddPush(push, Time(110), Time(190));
  trace.MoveTo(&report);
  ASSERT_EQ(report.spans_size(), 3);
  EXPECT_EQ(report.spans(1).clock(), 42u);
  EXPECT_EQ(report.spans(1).worker(), 7u);
  EXPECT_EQ(report.spans(2).kind(), TraceSpan::PUSH);
  EXPECT_EQ(report.spans(2).duration_ns(), 80);
  EXPECT_EQ(report.spans(2).seq(), 9u);
  trace.MoveTo(&report);
  EXPECT_EQ(report.spans_size(), 3);  // each span once
}

}  // namespace
}  // namespace psgd
