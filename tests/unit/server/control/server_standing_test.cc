// What a server's standing says of its core, and when a server that leaves has left.
#include "server/control/server_standing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace psgd {
namespace {

using testing::HasSubstr;

constexpr Duration kLong = std::chrono::hours(1);

ServerCoreOptions OptionsOfServer(bool begins) {
  ServerCoreOptions options;
  options.self.set_identity(101);
  options.run_id = "run-id";
  options.begins = begins;
  options.may_lead = begins;
  options.leader.patience = std::chrono::seconds(1);
  options.leader.coordinator.config.mutable_cluster()->set_shards(1);
  return options;
}

// A core that leads a new run.
class LeadingCore {
 public:
  LeadingCore() : core_(OptionsOfServer(true)) {
    core_.Start(now_, &effects_);
    core_.OnStoreWritten(1, 1, now_, &effects_);
    EXPECT_NE(core_.leader(), nullptr);
  }
  ServerCore& core() { return core_; }
  void Ask(const ControlRequest& asked) { core_.OnRequest(1, asked, now_, &effects_); }

 private:
  const Time now_ = std::chrono::hours(1);
  ServerCore core_;
  ServerEffects effects_;
};

// A core with a copy of a shard, which does not lead the run.
class FollowingCore {
 public:
  FollowingCore() : core_(OptionsOfServer(false)) {
    CopyState copy;
    copy.set_epoch(1);
    core_.OnCopies({&copy, 1}, now_, &effects_);
  }
  const ServerCore& core() const { return core_; }
  void Drop() { core_.OnDropped(0, now_, &effects_); }

 private:
  const Time now_ = std::chrono::hours(1);
  ServerCore core_;
  ServerEffects effects_;
};

TEST(StandingBoard, SaysWhatTheCoreSays) {
  LeadingCore leads;
  StandingBoard board(kLong);
  EXPECT_EQ(board.now(), ServerStanding());
  board.Look(leads.core(), false);
  EXPECT_TRUE(board.now().leads);
  EXPECT_FALSE(board.now().asked_to_stop);
  EXPECT_FALSE(board.now().trained);
  DrainRequest drain;
  drain.set_reason("enough");
  leads.Ask(drain);
  board.Look(leads.core(), false);
  EXPECT_TRUE(board.now().asked_to_stop);
  EXPECT_FALSE(board.now().stop_waits_for_store);
  board.Look(FollowingCore().core(), true);
  EXPECT_FALSE(board.now().leads);
  EXPECT_FALSE(board.now().asked_to_stop) << "another server leads the run, which ends";
}

TEST(StandingBoard, AChangeWakesThoseThatWaitForIt) {
  StandingBoard board(kLong);
  const ServerStanding before = board.now();
  std::thread ends([&] { board.End(absl::OkStatus()); });
  const ServerStanding after = board.WaitChanged(before, kLong);
  ends.join();
  ASSERT_TRUE(after.ended.has_value());
  EXPECT_TRUE(after.ended->ok());
  EXPECT_EQ(board.WaitChanged(before, kLong), after) << "it differs already";
  EXPECT_EQ(board.WaitChanged(after, Duration::zero()), after);
}

TEST(StandingBoard, AServerHasLeftOnceItsShardsAreElsewhere) {
  FollowingCore follows;
  StandingBoard board(kLong);
  board.Look(follows.core(), true);
  board.Leave();
  board.Look(follows.core(), true);
  EXPECT_FALSE(board.now().ended);
  follows.Drop();
  board.Look(follows.core(), true);
  ASSERT_TRUE(board.now().ended.has_value());
  EXPECT_TRUE(absl::IsCancelled(*board.now().ended)) << *board.now().ended;
}

TEST(StandingBoard, AServerThatWasNotAskedStaysWithoutShards) {
  FollowingCore follows;
  follows.Drop();
  StandingBoard board(Duration::zero());
  for (int i = 0; i < 3; ++i) board.Look(follows.core(), false);
  EXPECT_FALSE(board.now().ended);
}

TEST(StandingBoard, AServerThatLeavesDoesNotLookForALeaderForEver) {
  FollowingCore follows;
  for (const Duration deadline : {kLong, Duration::zero()}) {
    StandingBoard board(deadline);
    board.Look(follows.core(), false);
    board.Leave();
    const Time begun = SteadyNow();
    while (SteadyNow() == begun) {
    }
    board.Look(follows.core(), false);
    EXPECT_EQ(board.now().ended.has_value(), deadline != kLong);
    if (board.now().ended) {
      EXPECT_THAT(std::string(board.now().ended->message()), HasSubstr("cluster.deadline"));
    }
  }
}

TEST(StandingBoard, TheStatusSaysWhatAStoppingRunWaitsFor) {
  LeadingCore leads;
  StandingBoard board(kLong);
  board.Look(leads.core(), false);
  StatusReply status;
  status.set_storage_trouble("the disk is full");
  status.set_waits_for("worker 3");
  board.AddTo(&status);
  EXPECT_EQ(status.waits_for(), "worker 3") << "the run was not asked to stop";
  leads.Ask(DrainRequest());
  board.Look(leads.core(), false);
  board.AddTo(&status);
  EXPECT_THAT(status.waits_for(),
              HasSubstr("stopping waits until this can be written: the disk is full"));
  board.SetResultsWaitFor("room for the results");
  board.AddTo(&status);
  EXPECT_EQ(status.waits_for(), "room for the results");
}

}  // namespace
}  // namespace psgd
