// Runs whose servers use etcd to agree on the leader: Debian's etcd, real servers and workers.
#include "tests/system/etcd_run_test.h"

namespace psgd {
namespace {

using testing::HasSubstr;
using testing::Not;

class Etcd : public EtcdTest {
 protected:
  const std::vector<std::string> kExact = {"optimizer.sgd.momentum=0.9", "compression.push=topk"};
};

// Servers die one after the other, and new servers join. The result equals an undisturbed run.
TEST_F(Etcd, ServersDieAndComeAndTheWeightsAreThoseOfAnUndisturbedRun) {
  const std::vector<std::string> settings = kExact + std::vector<std::string>{"train.epochs=24"};
  ASSERT_EQ(RunSmall("calm", Sets(settings)).code, 0);
  StartEtcd();
  StartRun(settings, 3);
  Kill(*servers_[2]);
  ASSERT_TRUE(WaitInSync()) << servers_[0]->Err();
  ASSERT_TRUE(TrainsOn(*servers_[0])) << servers_[0]->Err();
  // Kills the run's leader.
  Kill(*servers_[0]);
  Hold();
  ASSERT_TRUE(servers_[1]->WaitFor("ready: workers connect")) << servers_[1]->Err();
  servers_.push_back(std::make_unique<Process>(Joining("server-4")));
  ASSERT_TRUE(servers_[3]->WaitFor("joined: as server 4")) << servers_[3]->Err();
  ASSERT_TRUE(WaitInSync()) << servers_[1]->Err();
  ASSERT_TRUE(TrainsOn(*servers_[1])) << servers_[1]->Err();
  Kill(*servers_[1]);
  ASSERT_TRUE(servers_[3]->WaitFor("ready: workers connect")) << servers_[3]->Err();
  ExpectWorkersFinish();
  EXPECT_EQ(servers_[3]->Wait().code, 0) << servers_[3]->Err();
  EXPECT_EQ(Summary("server-4")["epochs"], 24.0);
  EXPECT_TRUE(Weights("server-4") == Weights("calm"));
  // The run's name is free again.
  const Ended gone = RunProgram({"ps-ctl", "status", "--etcd", etcd_options_, "--run", "small"});
  EXPECT_NE(gone.code, 0);
  EXPECT_THAT(gone.err, HasSubstr("etcd knows no run called small"));
}

// The new leader knows the evaluations from before, and which checkpoint is the best.
TEST_F(Etcd, ARunStopsEarlyUnderItsNextLeader) {
  StartEtcd();
  // After the first epochs no evaluation is better by half.
  StartRun({"train.epochs=100000", "train.early_stop={patience: 30, least: 0.5}",
            "durability.checkpoint=1 epoch", "durability.keep=1", "durability.keep_best=true"});
  Kill(*servers_[0]);
  ExpectWorkersFinish();
  EXPECT_EQ(servers_[1]->Wait().code, 0) << servers_[1]->Err();
  const Json summary = Summary("server-2");
  EXPECT_EQ(summary["status"], "finished");
  EXPECT_THAT(summary["stopped_early"].get<std::string>(), HasSubstr("in 30 evaluations"));
  EXPECT_LT(summary["epochs"].get<double>(), 40);
  const Ended listed = RunProgram({"ps-ctl", "checkpoints", Path("server-2"), "--json"});
  ASSERT_EQ(listed.code, 0) << listed.err;
  std::vector<uint64_t> best;
  const Json checkpoints = Json::parse(listed.out)["checkpoints"];
  for (const Json& checkpoint : checkpoints) {
    if (checkpoint["best"].get<bool>()) best.push_back(checkpoint["id"].get<uint64_t>());
  }
  ASSERT_EQ(best.size(), 1u) << listed.out;
  EXPECT_EQ(summary["best_checkpoint"], best[0]);
}

TEST_F(Etcd, TrainingWaitsForItAndSaysSo) {
  StartEtcd();
  StartRun({"train.epochs=40", "cluster.lease=1s", "cluster.deadline=2s"});
  etcd_->Signal(SIGSTOP);
  const std::string address = ServerOf(*servers_[0]);
  ASSERT_TRUE(Eventually([&] {
    const Json status = StatusOf(address);
    return status.is_object() &&
           status["waits_for"].get<std::string>().find("the run store: etcd") != std::string::npos;
  })) << servers_[0]->Err();
  EXPECT_THAT(RunProgram({"ps-ctl", "status", "--server", address}).out,
              HasSubstr("waiting for the run store: etcd"));
  Pause(4s);  // twice the deadline
  etcd_->Signal(SIGCONT);
  ExpectWorkersFinish();
  for (auto& server : servers_) EXPECT_EQ(server->Wait().code, 0) << server->Err();
  const std::string leader =
      std::filesystem::exists(Path("server-2/summary.json")) ? "server-2" : "server-1";
  EXPECT_EQ(Summary(leader)["epochs"], 40.0);
}

TEST_F(Etcd, AStopWaitsForItTwoDeadlinesAtMost) {
  StartEtcd();
  StartRun({"train.epochs=100000", "cluster.lease=1s", "cluster.deadline=2s"});
  etcd_->Signal(SIGSTOP);
  servers_[0]->Signal(SIGTERM);
  EXPECT_TRUE(servers_[0]->WaitFor("waits for it at most 4s (cluster.deadline twice)", 10s))
      << servers_[0]->Err();
  EXPECT_EQ(servers_[0]->Wait(8s).code, 3) << servers_[0]->Err();
  for (auto& worker : workers_) worker->Signal(SIGKILL);
}

// No server leads without etcd's consent, and waiting for it loses nothing.
TEST_F(Etcd, AServerWaitsForItBeforeItLeads) {
  StartEtcd();
  StartRun({"train.epochs=20"});
  etcd_->Signal(SIGKILL);
  etcd_->Wait();
  Kill(*servers_[0]);
  Pause(3s);
  EXPECT_THAT(servers_[1]->Out(), Not(HasSubstr("ready:")));
  etcd_ = std::make_unique<Process>(etcd_command_);  // etcd still has its data
  ASSERT_TRUE(servers_[1]->WaitFor("ready: workers connect")) << servers_[1]->Err() << etcd_->Err();
  ExpectWorkersFinish();
  EXPECT_EQ(servers_[1]->Wait().code, 0) << servers_[1]->Err();
  EXPECT_EQ(Summary("server-2")["epochs"], 20.0);
}

// Waiting would not help. Nothing is lost, and the run goes on with an etcd that takes more.
TEST_F(Etcd, ARecordThatIsTooLargeForItEndsTheRun) {
  StartEtcd();
  StartRun({"train.epochs=100000", "cluster.lease=1s"});
  Kill(*etcd_);
  etcd_ = std::make_unique<Process>(etcd_command_ +
                                    std::vector<std::string>{"--max-request-bytes=500"});
  for (auto& server : servers_) {
    EXPECT_EQ(server->Wait().code, 1);
    EXPECT_THAT(server->Err(), HasSubstr("start each of its members with "
                                         "--max-request-bytes=33554432, and then the run's "
                                         "servers with --recover"));
  }
  for (auto& worker : workers_) Kill(*worker);
  Kill(*etcd_);
  etcd_ = std::make_unique<Process>(etcd_command_);
  servers_[0] = std::make_unique<Process>(std::vector<std::string>{
      "ps-server", "--recover", Path("server-1"), "--port", "0", "--etcd", etcd_options_});
  servers_[1] = std::make_unique<Process>(Joining("server-2"));
  for (auto& worker : workers_) worker = std::make_unique<Process>(Worker());
  // Either may lead.
  EXPECT_TRUE(Eventually([&] {
    return std::ranges::any_of(servers_, [](const auto& server) {
      return server->Err().find("test accuracy") != std::string::npos;
    });
  }));
  for (auto& worker : workers_) worker->Signal(SIGKILL);
}

class EtcdOver : public Etcd, public testing::WithParamInterface<std::string> {};

// A server that hangs for a while finds that another server leads, and goes on with its copies.
TEST_P(EtcdOver, AServerThatHangsIsReplacedAndFollows) {
  StartEtcd();
  StartRun({"train.epochs=20", "cluster.transport=" + GetParam()});
  servers_[0]->Signal(SIGSTOP);
  Hold();
  ASSERT_TRUE(servers_[1]->WaitFor("ready: workers connect")) << servers_[1]->Err();
  Pause(300ms);
  servers_[0]->Signal(SIGCONT);
  ASSERT_TRUE(servers_[0]->WaitFor("another server leads the run by now")) << servers_[0]->Err();
  Release();
  ExpectWorkersFinish();
  EXPECT_EQ(servers_[1]->Wait().code, 0) << servers_[1]->Err();
  EXPECT_EQ(servers_[0]->Wait(30s).code, 0) << servers_[0]->Err();
  EXPECT_EQ(Summary("server-2")["epochs"], 20.0);
}
INSTANTIATE_TEST_SUITE_P(Transports, EtcdOver, testing::Values("zmq", "grpc", "ucx"));

TEST_F(Etcd, AServerThatHangsBeyondTheEndOfItsRunEnds) {
  StartEtcd();
  StartRun({"train.epochs=20"});
  servers_[0]->Signal(SIGSTOP);
  ExpectWorkersFinish();
  EXPECT_EQ(servers_[1]->Wait().code, 0) << servers_[1]->Err();
  servers_[0]->Signal(SIGCONT);
  EXPECT_EQ(servers_[0]->Wait(30s).code, 0) << servers_[0]->Err();
  EXPECT_THAT(servers_[0]->Err(), HasSubstr("the run is over"));
}

// A server that does not lead hangs: the run goes on without its copies, and the server comes back.
TEST_F(Etcd, ACopyThatHangsIsNotWaitedFor) {
  StartEtcd();
  StartRun({"train.epochs=30"});
  servers_[1]->Signal(SIGSTOP);
  const Json before = StatusOf(ServerOf(*servers_[0]));
  ASSERT_TRUE(Eventually([&] {
    const Json now = StatusOf(ServerOf(*servers_[0]));
    return now.is_object() && now["epoch"] > before["epoch"].get<double>() + 3;
  })) << servers_[0]->Err();
  servers_[1]->Signal(SIGCONT);
  ASSERT_TRUE(WaitInSync()) << servers_[0]->Err() << servers_[1]->Err();
  Kill(*servers_[0]);
  ExpectWorkersFinish();
  EXPECT_EQ(servers_[1]->Wait().code, 0) << servers_[1]->Err();
  EXPECT_EQ(Summary("server-2")["epochs"], 30.0);
}

TEST_F(Etcd, OfASecuredRunIsShownCertificates) {
  const Certificates certificates;
  StartEtcd(&certificates);
  const std::vector<std::string> tls = {"--tls-dir", certificates.dir()};
  StartRun({"train.epochs=20"}, 2, tls);
  Hold();
  const Ended stranger = RunProgram({"ps-worker", "--cpu", "--etcd", etcd_address_, "--run",
                                     "small", "--connect-deadline", "1s"});
  EXPECT_NE(stranger.code, 0);
  const std::string address = ServerOf(*servers_[0]);
  ASSERT_TRUE(Eventually([&] {
    const Ended status = RunProgram(
        std::vector<std::string>{"ps-ctl", "status", "--server", address, "--json"} + tls);
    return status.code == 0 && IsInSync(Json::parse(status.out));
  }));
  Release();
  ASSERT_TRUE(TrainsOn(*servers_[0])) << servers_[0]->Err();
  Kill(*servers_[0]);
  ExpectWorkersFinish();
  EXPECT_EQ(servers_[1]->Wait().code, 0) << servers_[1]->Err();
  EXPECT_EQ(Summary("server-2")["epochs"], 20.0);
}

// All servers die and restart at other addresses. Workers find them by the run's name.
TEST_F(Etcd, ServersThatAllDiedGoOnElsewhere) {
  StartEtcd();
  StartRun({"train.epochs=20", "durability.checkpoint=1 epoch"});
  const std::string before = ServerOf(*servers_[0]);
  Kill(*servers_[1]);
  Kill(*servers_[0]);
  const Ended tied = RunProgram({"ps-server", "--recover", Path("server-1"), "--port", "0"});
  EXPECT_EQ(tied.code, 2);
  EXPECT_THAT(tied.err, HasSubstr("unless they find it by --etcd"));
  const Ended resumed =
      RunProgram({"ps-server", "--resume", Path("server-1"), "--etcd", etcd_options_});
  EXPECT_THAT(resumed.err, HasSubstr("--recover " + Path("server-1")));  // it lost no journal
  servers_[0] = std::make_unique<Process>(std::vector<std::string>{
      "ps-server", "--recover", Path("server-1"), "--port", "0", "--etcd", etcd_options_});
  servers_[1] = std::make_unique<Process>(Joining("server-2"));
  ExpectWorkersFinish();
  for (auto& server : servers_) EXPECT_EQ(server->Wait().code, 0) << server->Err();
}

TEST_F(Etcd, ANameIsOneRuns) {
  StartEtcd();
  StartRun({"train.epochs=100000"});
  const Ended another = RunProgram(Leading("another", {}));
  EXPECT_NE(another.code, 0);
  EXPECT_THAT(another.err, HasSubstr("the run store has a run of that name"));
  for (auto& worker : workers_) worker->Signal(SIGKILL);
}

TEST_F(Etcd, ARunOfPsRunThatIsStoppedFreesItsName) {
  StartEtcd();
  const std::vector<std::string> etcd = {"--etcd", etcd_options_};
  Process run(PsRun("run", Copied(2) + Sets({"train.epochs=5000"}) + etcd));
  ASSERT_TRUE(run.WaitFor("watch it with: ps-ctl status --etcd " + etcd_options_ + " --run small"))
      << run.Err();
  ASSERT_TRUE(run.WaitFor("epoch 2/5000")) << run.Err();
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait().code, 3) << run.Err();
  Process again(std::vector<std::string>{"ps-run", "--resume", Path("run")} + etcd);
  ASSERT_TRUE(again.WaitFor("/5000: test accuracy")) << again.Err();
  again.Signal(SIGINT);
  EXPECT_EQ(again.Wait().code, 3) << again.Err();
}

TEST_F(Etcd, WhatCannotBeDoneWithItIsSaid) {
  etcd_options_ = "127.0.0.1:1";
  Ended ended =
      RunProgram({"ps-server", "--config", SmallConfig(), "--port", "0", "--etcd", etcd_options_});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("add --set durability.acknowledge=journal"));
  ended = RunSmall("away", {"--etcd", etcd_options_});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("add --set durability.acknowledge=journal"));
  ended = RunProgram(Joining("away") + std::vector<std::string>{"--connect-deadline", "300ms"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("no server of the run answers at small"));
  EXPECT_THAT(ended.err, HasSubstr("etcd at 127.0.0.1:1 does not answer"));
  ended = RunProgram(Worker() + std::vector<std::string>{"--connect-deadline", "300ms"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("does not answer"));
  etcd_options_ = "nowhere";
  ended = RunProgram(Worker());
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("--etcd nowhere is not HOST:PORT"));
  ended = RunProgram({"ps-worker", "--cpu", "--etcd", "127.0.0.1:1"});
  EXPECT_EQ(ended.code, 2);
  ended = RunProgram({"ps-ctl", "drain"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("--server HOST:PORT, or --etcd"));
}

}  // namespace
}  // namespace psgd
