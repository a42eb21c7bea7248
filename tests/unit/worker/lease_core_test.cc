// What a worker's heartbeats say, and what it makes of the answers.
#include "worker/lease_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd {
namespace {

using Servers = LeaseCore::Servers;
constexpr Time kNow = std::chrono::hours(1);

JoinReply Joined() {
  JoinReply joined;
  joined.mutable_key()->set_worker(3);
  joined.set_lease_ms(1200);
  return joined;
}

Leaders LeadersOf(uint64_t epoch, const std::vector<std::string>& addresses) {
  Leaders leaders;
  leaders.set_epoch(epoch);
  for (const std::string& address : addresses) leaders.add_addresses(address);
  return leaders;
}

TEST(LeaseCore, ALeaseHasRoomForSecondAttempts) {
  const LeaseCore lease(Joined());
  EXPECT_EQ(lease.period(), Milliseconds(300));
  EXPECT_EQ(lease.attempt(), Milliseconds(400));
}

TEST(LeaseCore, HeartbeatsComeSoonForAWhileAfterAnotherServerLeadsOrShardsMoved) {
  LeaseCore lease(Joined());
  lease.SetEndpoints({"a"});
  const auto beats_soon = [&] {
    int beats = 0;
    for (; lease.period() < Milliseconds(300); ++beats) (void)lease.Beat();
    return beats;
  };
  (void)lease.OnLeaders(LeadersOf(1, {"one"}));
  EXPECT_EQ(beats_soon(), 0);
  (void)lease.OnLeaders(LeadersOf(2, {"two", "one"}));
  EXPECT_EQ(lease.period(), Milliseconds(100));
  EXPECT_EQ(beats_soon(), 5);
  HeartbeatReply reply;
  reply.add_endpoints("b");
  (void)lease.OnAnswer(reply, kNow, kNow);
  EXPECT_EQ(beats_soon(), 5);
  (void)lease.OnAnswer(reply, kNow, kNow);
  EXPECT_EQ(beats_soon(), 0);
}

TEST(LeaseCore, CountsAreReportedOnceAndLevelsStand) {
  LeaseCore lease(Joined());
  lease.report().set_steps(5);
  lease.report().set_clock(5);
  lease.report().set_residual_norm(2);
  lease.report().set_detour("no UCX");
  HeartbeatRequest beat = lease.Beat();
  EXPECT_EQ(beat.key().worker(), 3u);
  EXPECT_EQ(beat.number(), 1u);
  EXPECT_EQ(beat.report().steps(), 5u);
  beat = lease.Beat();
  EXPECT_EQ(beat.number(), 2u);
  EXPECT_EQ(beat.report().steps(), 0u);
  EXPECT_EQ(beat.report().clock(), 5u);
  EXPECT_EQ(beat.report().residual_norm(), 2);
  EXPECT_EQ(beat.report().detour(), "no UCX");
}

TEST(LeaseCore, AFailureEndsIt) {
  LeaseCore lease(Joined());
  (void)lease.OnAnswer(absl::FailedPreconditionError("worker 3 is out"), kNow, kNow);
  EXPECT_EQ(lease.status(), absl::FailedPreconditionError("worker 3 is out"));
}

TEST(LeaseCore, AMoveOfTheShardsIsToldOnce) {
  LeaseCore lease(Joined());
  lease.SetEndpoints({"a", "b"});
  HeartbeatReply reply;
  (void)lease.OnAnswer(reply, kNow, kNow);
  EXPECT_FALSE(lease.TakeMove()) << "no endpoints: they are where they were";
  reply.add_endpoints("a");
  reply.add_endpoints("c");
  (void)lease.OnAnswer(reply, kNow, kNow);
  EXPECT_THAT(*lease.TakeMove(), testing::ElementsAre("a", "c"));
  (void)lease.OnAnswer(reply, kNow, kNow);
  EXPECT_FALSE(lease.TakeMove());
}

TEST(LeaseCore, ServersOfALaterEpochReplaceThoseBefore) {
  LeaseCore lease(Joined());
  EXPECT_EQ(lease.OnLeaders(LeadersOf(2, {"a", "b"})).what, Servers::kReplaced);
  const Servers same = lease.OnLeaders(LeadersOf(2, {"a", "c"}));
  EXPECT_EQ(same.what, Servers::kAdded);
  EXPECT_FALSE(same.another_leads);
  const Servers later = lease.OnLeaders(LeadersOf(3, {"b", "c"}));
  EXPECT_EQ(later.what, Servers::kReplaced);
  EXPECT_TRUE(later.another_leads);
  EXPECT_THAT(later.addresses, testing::ElementsAre("b", "c"));
}

// A server that was replaced and does not know it still answers.
TEST(LeaseCore, WhatAServerSaysThatLeadsNoMoreIsNotBelieved) {
  LeaseCore lease(Joined());
  lease.SetEndpoints({"a"});
  (void)lease.OnLeaders(LeadersOf(3, {"b"}));
  HeartbeatReply old;
  *old.mutable_leaders() = LeadersOf(2, {"a"});
  old.set_drain(true);
  old.add_endpoints("elsewhere");
  EXPECT_EQ(lease.OnAnswer(old, kNow, kNow).what, Servers::kOutdated);
  EXPECT_FALSE(lease.drain());
  EXPECT_FALSE(lease.TakeMove());
}

TEST(LeaseCore, HyperParametersOfAnEarlierVersionAreIgnored) {
  LeaseCore lease(Joined());
  HyperParameters hyper;
  hyper.set_version(2);
  hyper.set_learning_rate(0.5);
  lease.SetHyper(hyper);
  hyper.set_version(1);
  hyper.set_learning_rate(9);
  lease.SetHyper(hyper);
  EXPECT_EQ(lease.hyper().learning_rate(), 0.5);
}

TEST(LeaseCore, WhenItWasFirstAskedToLeaveIsKept) {
  LeaseCore lease(Joined());
  HeartbeatReply reply;
  reply.set_leave(true);
  (void)lease.OnAnswer(reply, kNow, kNow + Milliseconds(1));
  (void)lease.OnAnswer(reply, kNow, kNow + Milliseconds(9));
  EXPECT_EQ(lease.leave_asked(), kNow + Milliseconds(1));
}

TEST(LeaseCore, SpansStayUntilTheServersClockIsKnown) {
  LeaseCore lease(Joined());
  lease.report().add_spans()->set_start_ns(kNow.count());
  EXPECT_EQ(lease.Beat().report().spans_size(), 0);
  HeartbeatReply reply;
  reply.set_clock_ns((kNow + std::chrono::hours(2)).count());
  (void)lease.OnAnswer(reply, kNow - Milliseconds(1), kNow + Milliseconds(1));
  const HeartbeatRequest beat = lease.Beat();
  ASSERT_EQ(beat.report().spans_size(), 1);
  EXPECT_EQ(beat.report().spans(0).start_ns(), (kNow + std::chrono::hours(2)).count());
}

}  // namespace
}  // namespace psgd
