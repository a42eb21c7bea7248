// What becomes of a ps-run whose followers die, and its leader at a bad moment with them.
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using namespace std::chrono_literals;

class FollowerDeath : public RunTest {
 protected:
  // A ps-run of so many epochs, which trains and has one follower.
  void StartRun(int epochs) {
    run_ = std::make_unique<Process>(
        PsRun("run", Sets({"durability.acknowledge=replicated", "cluster.resend=200ms",
                           "cluster.lease=20s", absl::StrCat("train.epochs=", epochs)})));
    ASSERT_TRUE(run_->WaitFor("epoch 2/")) << run_->Err();
    ASSERT_THAT(Servers(), SizeIs(2));
  }
  // Before any took over, the leader and then those that follow.
  std::vector<pid_t> Servers() const { return run_->Children("ps-server"); }
  void SignalWorkers(int signal) const {
    const std::vector<pid_t> workers = run_->Children("ps-worker");
    ASSERT_THAT(workers, Not(IsEmpty()));
    for (const pid_t worker : workers) ASSERT_EQ(kill(worker, signal), 0);
  }
  bool HasFollower(size_t chain) {
    const Json status = StatusOf(ServerOf(*run_));
    return status.is_object() && status["chain"]["members"].size() == chain &&
           status["followers"].size() == 1 && status["followers"][0]["connected"] == true;
  }

  std::unique_ptr<Process> run_;
};

// The leader is recovered from a record by which it has to wait for the follower.
TEST_F(FollowerDeath, IsSaidUntilALeaderThatDiedNextKnowsIt) {
  StartRun(60);
  const std::vector<pid_t> servers = Servers();
  ASSERT_EQ(kill(servers[0], SIGSTOP), 0);
  ASSERT_EQ(kill(servers[1], SIGKILL), 0);
  ASSERT_TRUE(run_->WaitFor("follower 2 died; another takes its place")) << run_->Err();
  Pause(1500ms);
  ASSERT_EQ(kill(servers[0], SIGKILL), 0);
  const Ended ended = run_->Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("is back after"));
  EXPECT_EQ(Summary("run")["epochs"], 60.0);
}

// Workers that are told of nothing keep the new follower out of the chain.
TEST_F(FollowerDeath, LeavesOneThatMayNotLeadAndNobodyWaitsForThat) {
  StartRun(150);
  const std::vector<pid_t> servers = Servers();
  SignalWorkers(SIGSTOP);
  ASSERT_EQ(kill(servers[1], SIGKILL), 0);
  ASSERT_TRUE(Eventually([&] { return HasFollower(1); })) << run_->Err();
  ASSERT_EQ(kill(servers[0], SIGKILL), 0);
  ASSERT_TRUE(run_->WaitFor("is back after", 15s)) << run_->Err();
  SignalWorkers(SIGCONT);
  // That follower leads once it may.
  ASSERT_TRUE(Eventually([&] { return HasFollower(2); })) << run_->Err();
  EXPECT_THAT(run_->Err(), Not(HasSubstr("took over after")));
  ASSERT_THAT(Servers(), SizeIs(2));
  ASSERT_EQ(kill(Servers()[1], SIGKILL), 0);  // younger than the follower
  const Ended ended = run_->Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("took over after"));
  EXPECT_EQ(Summary("run")["epochs"], 150.0);
}

TEST_F(FollowerDeath, IsNotWaitedForByARunThatStops) {
  StartRun(100000);
  const std::vector<pid_t> servers = Servers();
  SignalWorkers(SIGSTOP);
  run_->Signal(SIGINT);
  ASSERT_TRUE(Eventually([&] {
    const Json status = StatusOf(ServerOf(*run_));
    return status.is_object() && status["state"] == "DRAINING";
  })) << run_->Err();
  Pause(1s);  // until ps-run knows
  ASSERT_EQ(kill(servers[1], SIGKILL), 0);
  SignalWorkers(SIGCONT);
  const Ended ended = run_->Wait(30s);
  EXPECT_EQ(ended.code, 3) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("follower 2 died; the run goes on without it"));
  EXPECT_EQ(Summary("run")["status"], "interrupted");
}

}  // namespace
}  // namespace psgd
