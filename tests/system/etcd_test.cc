// Runs whose servers settle in etcd who leads: Debian's etcd, real servers and workers.
#include "absl/strings/str_join.h"
#include "tests/system/etcd_run_test.h"

namespace psgd {
namespace {

using testing::HasSubstr;
using testing::Not;

class Etcd : public EtcdTest {};

// Servers die one after the other, and new ones come: what is left in the end is an undisturbed
// run.
TEST_F(Etcd, ServersDieAndComeAndTheWeightsAreThoseOfAnUndisturbedRun) {
  const std::vector<std::string> settings = {"train.epochs=150", "optimizer.sgd.momentum=0.9",
                                             "compression.push=topk"};
  ASSERT_EQ(RunSmall("calm", Sets(settings)).code, 0);
  StartEtcd();
  StartRun(settings, 2);
  // A follower: the leader drops it by itself.
  Kill(*servers_[2]);
  ASSERT_TRUE(servers_[0]->WaitFor("is gone: the run goes on without it")) << servers_[0]->Err();
  // The leader.
  Kill(*servers_[0]);
  ASSERT_TRUE(servers_[1]->WaitFor("took over")) << servers_[1]->Err();
  // It comes back as one that follows, by the run's name; and leads again.
  servers_.push_back(std::make_unique<Process>(Following("server-4")));
  ASSERT_TRUE(servers_[1]->WaitFor("follows: acknowledgements"))
      << servers_[1]->Err() << servers_[3]->Err();
  EXPECT_EQ(StatusByName()["chain"]["members"].size(), 2u);
  Kill(*servers_[1]);
  ASSERT_TRUE(servers_[3]->WaitFor("took over")) << servers_[3]->Err();
  ExpectWorkersFinish();
  EXPECT_EQ(servers_[3]->Wait().code, 0) << servers_[3]->Err();
  EXPECT_EQ(Summary("server-4")["epochs"], 150.0);
  EXPECT_EQ(Weights("server-4"), Weights("calm"));
  // Its name is free again.
  const Ended gone = RunProgram({"ps-ctl", "status", "--etcd", etcd_options_, "--run", "small"});
  EXPECT_NE(gone.code, 0);
  EXPECT_THAT(gone.err, HasSubstr("etcd knows no run called small"));
}

// Training needs no etcd, as long as nobody dies.
TEST_F(Etcd, TrainingGoesOnWhileItIsAway) {
  StartEtcd();
  StartRun({"train.epochs=300"});
  etcd_->Signal(SIGSTOP);
  ASSERT_TRUE(servers_[0]->WaitFor("nobody can change which servers the run has"))
      << servers_[0]->Err();
  const std::string address = ServerOf(*servers_[0]);
  const Json before = StatusOf(address);
  ASSERT_TRUE(before.is_object());
  EXPECT_TRUE(Eventually([&] {
    const Json now = StatusOf(address);
    return now.is_object() && now["epoch"] > before["epoch"];
  }));
  const Ended status = RunProgram({"ps-ctl", "status", "--server", address});
  EXPECT_THAT(status.out, HasSubstr("nobody can change them for now: etcd at " + etcd_address_));
  const Ended drop = RunProgram({"ps-ctl", "drop-follower", "2", "--server", address});
  EXPECT_NE(drop.code, 0);
  EXPECT_THAT(drop.err, HasSubstr("does not answer")) << drop.err;
  etcd_->Signal(SIGCONT);
  ASSERT_TRUE(servers_[0]->WaitFor("the run's servers can be changed again")) << servers_[0]->Err();
  // It leads as before; and is succeeded when it dies.
  EXPECT_THAT(servers_[1]->Err(), Not(HasSubstr("took over")));
  Kill(*servers_[0]);
  ExpectWorkersFinish();
  EXPECT_EQ(servers_[1]->Wait().code, 0) << servers_[1]->Err();
  EXPECT_EQ(Summary("server-2")["epochs"], 300.0);
}

// Nobody leads without etcd's word, and nothing is lost by waiting for it.
TEST_F(Etcd, AFollowerWaitsForItBeforeItTakesOver) {
  StartEtcd();
  StartRun({"train.epochs=120"});
  etcd_->Signal(SIGKILL);
  etcd_->Wait();
  Kill(*servers_[0]);
  ASSERT_TRUE(servers_[1]->WaitFor("does not take over: etcd at " + etcd_address_))
      << servers_[1]->Err();
  etcd_ = std::make_unique<Process>(etcd_command_);  // and it has its data
  ASSERT_TRUE(servers_[1]->WaitFor("took over")) << servers_[1]->Err() << etcd_->Err();
  ExpectWorkersFinish();
  EXPECT_EQ(servers_[1]->Wait().code, 0) << servers_[1]->Err();
  EXPECT_EQ(Summary("server-2")["epochs"], 120.0);
}

TEST_F(Etcd, AZombieIsFenced) {
  StartEtcd();
  StartRun({"train.epochs=120"});
  servers_[0]->Signal(SIGSTOP);
  ASSERT_TRUE(servers_[1]->WaitFor("took over")) << servers_[1]->Err();
  servers_[0]->Signal(SIGCONT);
  const Ended zombie = servers_[0]->Wait(20s);
  EXPECT_NE(zombie.code, 0);
  EXPECT_THAT(zombie.err, HasSubstr("leads this run by now"));
  ExpectWorkersFinish();
  EXPECT_EQ(servers_[1]->Wait().code, 0) << servers_[1]->Err();
  EXPECT_EQ(Summary("server-2")["epochs"], 120.0);
}

// One that wakes up when all is over finds neither followers nor a chain.
TEST_F(Etcd, AZombieOfARunThatIsOverEnds) {
  StartEtcd();
  StartRun({"train.epochs=60"});
  servers_[0]->Signal(SIGSTOP);
  ExpectWorkersFinish();
  EXPECT_EQ(servers_[1]->Wait().code, 0) << servers_[1]->Err();
  servers_[0]->Signal(SIGCONT);
  const Ended zombie = servers_[0]->Wait(30s);
  EXPECT_NE(zombie.code, 0);
  EXPECT_THAT(zombie.err, HasSubstr("etcd no longer holds the chain of this run"));
  EXPECT_THAT(zombie.err, HasSubstr("may not go on without it"));
}

// A follower that hangs is dropped as one that died; it finds that out, and follows anew.
TEST_F(Etcd, AFollowerThatHangsIsDroppedAndComesBack) {
  StartEtcd();
  StartRun({"train.epochs=150"});
  servers_[1]->Signal(SIGSTOP);
  ASSERT_TRUE(servers_[0]->WaitFor("is gone: the run goes on without it")) << servers_[0]->Err();
  servers_[1]->Signal(SIGCONT);
  ASSERT_TRUE(Eventually([&] { return WouldBeSucceeded(StatusOf(ServerOf(*servers_[0]))); }))
      << servers_[0]->Err() << servers_[1]->Err();
  EXPECT_THAT(servers_[1]->Err(), Not(HasSubstr("took over")));
  Kill(*servers_[0]);
  ExpectWorkersFinish();
  EXPECT_EQ(servers_[1]->Wait().code, 0) << servers_[1]->Err();
  EXPECT_EQ(Summary("server-2")["epochs"], 150.0);
}

TEST_F(Etcd, OfASecuredRunIsShownCertificates) {
  const Certificates certificates;
  StartEtcd(&certificates);
  const std::vector<std::string> tls = {"--tls-dir", certificates.dir()};
  StartRun({"train.epochs=80"}, 1, tls);
  const Ended stranger = RunProgram({"ps-worker", "--cpu", "--etcd", etcd_address_, "--run",
                                     "small", "--connect-deadline", "1s"});
  EXPECT_NE(stranger.code, 0);
  Kill(*servers_[0]);
  ExpectWorkersFinish();
  EXPECT_EQ(servers_[1]->Wait().code, 0) << servers_[1]->Err();
  EXPECT_EQ(Summary("server-2")["epochs"], 80.0);
}

// Its servers are told of etcd, and workers find whoever leads there.
TEST_F(Etcd, SettlesWhoLeadsARunOfPsRun) {
  const std::vector<std::string> settings = {"train.epochs=200", "optimizer.sgd.momentum=0.9",
                                             "compression.push=topk"};
  ASSERT_EQ(RunSmall("calm", Sets(settings)).code, 0);
  StartEtcd();
  Process run(LedByPsRun("run", settings));
  ASSERT_TRUE(run.WaitFor("watch it with: ps-ctl status --etcd " + etcd_options_ + " --run small"))
      << run.Err();
  ASSERT_TRUE(run.WaitFor("epoch 2/200")) << run.Err();
  EXPECT_EQ(Chain(), (std::vector{1, 2}));
  // Without its word nobody takes over.
  etcd_->Signal(SIGSTOP);
  ASSERT_EQ(kill(run.Children("ps-server").front(), SIGKILL), 0);
  ASSERT_TRUE(Eventually([&] {
    return File("run/follower-1/server/server.log").find("does not take over: etcd") !=
           std::string::npos;
  })) << run.Err();
  etcd_->Signal(SIGCONT);
  ASSERT_TRUE(run.WaitFor("took over after")) << run.Err();
  ASSERT_TRUE(Eventually([&] {
    return Chain() == std::vector{2, 3} && WouldBeSucceeded(StatusByName());
  })) << run.Err();
  // With nobody left to take over, it goes on where its journal ends, as the chain in etcd lets it.
  for (const pid_t server : run.Children("ps-server")) ASSERT_EQ(kill(server, SIGKILL), 0);
  ASSERT_TRUE(run.WaitFor("ps-server is back after")) << run.Err();
  const Ended ended = run.Wait();
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(Weights("run"), Weights("calm"));
  EXPECT_EQ(Summary("run")["epochs"], 200.0);
}

TEST_F(Etcd, ARunOfPsRunThatIsStoppedFreesItsName) {
  StartEtcd();
  Process run(LedByPsRun("run", {"train.epochs=5000"}));
  ASSERT_TRUE(run.WaitFor("epoch 2/5000")) << run.Err();
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait().code, 3) << run.Err();
  const std::vector<std::string> resume = {"ps-run", "--resume", Path("run"), "--etcd",
                                           etcd_options_};
  Process again(resume);
  ASSERT_TRUE(again.WaitFor("/5000: test accuracy")) << again.Err();
  EXPECT_EQ(Chain().size(), 2u);
  // Killed, its servers tell etcd nothing, and it might be recovered.
  for (const pid_t worker : again.Children("ps-worker")) kill(worker, SIGSTOP);
  again.Signal(SIGINT);
  ASSERT_TRUE(again.WaitFor("stopping: finishing the segment")) << again.Err();
  Pause(300ms);  // sooner it would count as once
  again.Signal(SIGINT);
  const Ended killed = again.Wait();
  EXPECT_EQ(killed.code, 3) << killed.err;
  EXPECT_THAT(killed.err, HasSubstr("etcdctl del --prefix /psgd/small/"));
  const Ended refused = RunProgram(resume);
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("etcd holds a run of this name already"));
  EXPECT_THAT(refused.err, HasSubstr("etcdctl del --prefix /psgd/NAME/"));
}

TEST_F(Etcd, WhatCannotBeDoneWithItIsSaid) {
  etcd_options_ = "127.0.0.1:1";
  Ended ended = RunProgram(Leading("away", {}));
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("etcd at 127.0.0.1:1 does not answer"));
  ended = RunProgram(Leading("memory", {"durability.acknowledge=memory"}));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("add --set durability.acknowledge=journal, or replicated"));
  ended = RunProgram(LedByPsRun("away", {"durability.acknowledge=memory"}));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("add --set durability.acknowledge=journal, or replicated"));
  ended = RunProgram(LedByPsRun("away", {}));
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("etcd at 127.0.0.1:1 does not answer"));
  ended = RunProgram(Following("away") + std::vector<std::string>{"--connect-deadline", "300ms"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("no server leads a run that etcd knows by this name"));
  EXPECT_THAT(ended.err, HasSubstr("etcd at 127.0.0.1:1 does not answer"));
  ended = RunProgram(Worker() + std::vector<std::string>{"--connect-deadline", "300ms"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("does not answer"));
  etcd_options_ = "nowhere";
  for (const auto& command : {Worker(), LedByPsRun("nowhere", {})}) {
    ended = RunProgram(command);
    EXPECT_EQ(ended.code, 2);
    EXPECT_THAT(ended.err, HasSubstr("--etcd nowhere is not HOST:PORT"));
  }
  ended = RunProgram({"ps-worker", "--cpu", "--etcd", "127.0.0.1:1"});
  EXPECT_EQ(ended.code, 2);
  ended = RunProgram({"ps-ctl", "drain"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("--server HOST:PORT, or --etcd"));
}

}  // namespace
}  // namespace psgd
