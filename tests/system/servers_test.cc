// Runs with shards on several servers.
#include <signal.h>

#include <filesystem>
#include <map>

#include "absl/strings/str_cat.h"
#include "tests/certificates/certificates.h"
#include "tests/folders.h"
#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

class Servers : public RunTest {
 protected:
  // Settings with which a lost or repeated update changes the weights.
  static std::vector<std::string> Exact(std::vector<std::string> more) {
    return Sets({"cluster.shards=5", "compression.push=topk", "cluster.slice=1KiB",
                 "cluster.resend=200ms", "cluster.lease=20s"}) +
           Sets(std::move(more));
  }
  void TearDown() override {
    // A worker of a failed run looks for the run until its deadline.
    for (auto& worker : workers_) worker.reset();
    coordinator_.reset();
    RunTest::TearDown();
  }
  void RunCalm(const std::vector<std::string>& settings) const {
    ASSERT_EQ(RunSmall("calm", Exact(settings)).code, 0);
  }
  // Starts a coordinator and two workers by hand, as on a cluster.
  void Start(const std::vector<std::string>& settings, const std::vector<std::string>& more = {}) {
    coordinator_ = std::make_unique<Process>(std::vector<std::string>{"ps-server", "--config",
                                                                      SmallConfig(), "--port", "0",
                                                                      "--run-dir", Path("run")} +
                                             Exact(settings) + more);
    address_ = ServerOf(*coordinator_);
    for (auto& worker : workers_) {
      worker = std::make_unique<Process>(
          std::vector<std::string>{"ps-worker", "--cpu", "--server", address_});
    }
  }
  std::unique_ptr<Process> Joined(const std::string& run_dir,
                                  const std::vector<std::string>& more = {}) const {
    return std::make_unique<Process>(
        std::vector<std::string>{"ps-server", "--join", address_, "--run-dir", Path(run_dir)} +
        more);
  }
  // How many shards a server holds; -1: the server is not there.
  static int Held(const std::string& address, uint32_t server) {
    const Json status = StatusOf(address);
    if (!status.is_object()) return -1;
    bool connected = false;
    for (const Json& one : status.value("servers", Json::array())) {
      connected = connected || (one["server"] == server && one.value("connected", false));
    }
    int held = 0;
    for (const Json& shard : status["shards"]) held += shard.value("server", 0u) == server;
    return connected ? held : -1;
  }
  bool WaitHeld(uint32_t server, int shards) const {
    return Eventually([&] { return Held(address_, server) == shards; });
  }
  void ExpectFinished() {
    for (auto& worker : workers_) EXPECT_EQ(worker->Wait().code, 0) << worker->Err();
    EXPECT_EQ(coordinator_->Wait().code, 0) << coordinator_->Err();
  }
  Ended Rebalance(const std::vector<std::string>& moves) const {
    return RunProgram(std::vector<std::string>{"ps-ctl", "rebalance", "--server", address_} +
                      moves);
  }

  std::unique_ptr<Process> coordinator_, workers_[2];
  std::string address_;
};

class ServersOver : public Servers, public testing::WithParamInterface<std::string> {};

TEST_P(ServersOver, ComputeWhatOneDoes) {
  const std::vector<std::string> settings = {"train.epochs=4", "cluster.transport=" + GetParam()};
  RunCalm(settings);
  const Ended ended = RunSmall("run", Exact(settings) + Sets({"cluster.servers=3"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_TRUE(Weights("run") == Weights("calm"));
  EXPECT_EQ(Losses("run"), Losses("calm"));
  EXPECT_EQ(Summary("run")["servers"], 3);
  EXPECT_EQ(Summary("calm")["servers"], 1);
  EXPECT_THAT(ended.out, HasSubstr("5 shards on 3 servers, 2 workers"));
  EXPECT_THAT(File("run/server/server.log"), HasSubstr("moved from server 1 to server 2"));
  EXPECT_THAT(File("run/server/server.log"), HasSubstr("to server 3"));
}
INSTANTIATE_TEST_SUITE_P(Transports, ServersOver, testing::Values("zmq", "auto", "grpc", "ucx"));

TEST_F(Servers, BesideWorkersComputeWhatOneDoes) {
  const std::vector<std::string> settings = {"train.epochs=4"};
  RunCalm(settings);
  const Ended ended =
      RunSmall("run", Exact(settings) + std::vector<std::string>{"--servers-on-workers"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_TRUE(Weights("run") == Weights("calm"));
  EXPECT_THAT(ended.out, HasSubstr("5 shards on 2 servers, 2 workers"));
  // Nothing was trained before the shards were where they belong.
  EXPECT_THAT(File("run/server/server.log"), HasSubstr("moved from server 1 to server 2"));
}

// The first server is beside the first worker, and has as much as the other. The run directory of a
// live run shows it. If all workers are elsewhere, the first server is beside none.
TEST_F(Servers, BesideTheProgramsOfARun) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "Python has no runtime of the sanitizer, which libpsgd needs";
#endif
  Write("client.yaml",
        "model: client\ndata: {batch: 4}\ncluster: {shards: 4, workers: 2, slice: 96B}\n");
  const auto ps_run = [&](const std::string& run, const std::string& epochs,
                          const std::vector<std::string>& more) {
    return std::vector<std::string>{"ps-run", Path("client.yaml"), "--run-dir", Path(run),
                                    "--servers-on-workers"} +
           more +
           std::vector<std::string>{"--",
                                    "env",
                                    "PYTHONPATH=" + SourceDir() + "/python",
                                    "/usr/bin/python3",
                                    "-B",
                                    SourceDir() + "/tests/python/counting_worker.py",
                                    "--epochs",
                                    epochs,
                                    "--pause",
                                    "0.01"};
  };
  Process run(ps_run("run", "100000", {}));
  Json status;
  ASSERT_TRUE(Eventually([&] {
    const Ended asked = RunProgram({"ps-ctl", "status", Path("run"), "--json"});
    const Json told = Json::parse(asked.out, nullptr, false);
    status = told.is_object() ? told.value("live", Json()) : Json();
    return status.is_object() && status["state"] == "TRAINING";
  })) << run.Err();
  std::map<int, int> shards;  // by server
  for (const Json& shard : status["shards"]) ++shards[shard["server"].get<int>()];
  EXPECT_THAT(shards, testing::ElementsAre(testing::Pair(1, 2), testing::Pair(2, 2)));
  const std::string text = RunProgram({"ps-ctl", "status", Path("run")}).out;
  EXPECT_THAT(text, testing::ContainsRegex("1 \\(leads\\) +[^ ]+ +a worker +- +live +2 .* 50.0 %"));
  EXPECT_THAT(text, testing::ContainsRegex("\n +2 +[^ ]+ +a worker +- +live +2 .* 50.0 %"));
  // A program that ends takes the server beside it along.
  ASSERT_EQ(run.Children("python3").size(), 2u);
  kill(run.Children("python3").back(), SIGKILL);
  EXPECT_TRUE(Eventually([&] {
    return RunProgram({"ps-ctl", "status", Path("run")}).out.find("  left ") != std::string::npos;
  })) << run.Err();
  EXPECT_EQ(StatusOf(ServerOf(run))["state"], "TRAINING");
  run.Signal(SIGINT);
  run.Signal(SIGINT);
  run.Wait();

  const Ended whole = RunProgram(ps_run("whole", "2", {"--worker-prefix", "env PREFIXED=yes"}));
  EXPECT_EQ(whole.code, 0) << whole.err;
  EXPECT_EQ(Summary("whole")["servers"], 3);
  for (const char* worker : {"worker-0", "worker-1"}) {
    EXPECT_TRUE(
        std::filesystem::exists(Path(absl::StrCat("whole/", worker, "/server/server/server.log"))));
  }
}

// A worker that is asked to leave takes its server along, once others have its shards.
TEST_F(Servers, BesideAWorkerLeaveWithIt) {
  Start({"train.epochs=100000", "cluster.segment=4"});
  workers_[1] = std::make_unique<Process>(std::vector<std::string>{
      "ps-worker", "--cpu", "--server", address_, "--with-server", Path("beside")});
  ASSERT_TRUE(WaitHeld(2, 2));
  ASSERT_TRUE(Eventually([&] { return StatusOf(address_)["state"] == "TRAINING"; }));
  workers_[1]->Signal(SIGTERM);
  EXPECT_EQ(workers_[1]->Wait().code, 3) << workers_[1]->Err();
  EXPECT_EQ(Held(address_, 1), 5);
  const uint64_t clock = std::stoull(StatusOf(address_)["clock"].get<std::string>());
  EXPECT_TRUE(Eventually(
      [&] { return std::stoull(StatusOf(address_)["clock"].get<std::string>()) > clock + 20; }));
}

TEST_F(Servers, BesideWorkersEndWithThemAndBeginAnew) {
  const std::vector<std::string> settings = Exact({"train.epochs=100000", "cluster.segment=4",
                                                   "cluster.lease=3s", "cluster.deadline=6s"}) +
                                            std::vector<std::string>{"--servers-on-workers"};
  Process first(PsRun("run", settings));
  ASSERT_TRUE(first.WaitFor("epoch 1/")) << first.Err();
  first.Signal(SIGINT);
  EXPECT_EQ(first.Wait().code, 3) << first.Err();
  EXPECT_THAT(first.Err(), HasSubstr(Path("run") + " --servers-on-workers"));
  Process again({"ps-run", "--resume", Path("run"), "--servers-on-workers"});
  ASSERT_TRUE(again.WaitFor("epoch 2")) << again.Err();
  again.Signal(SIGKILL);
  again.Wait();
  // Nobody takes the shards of the servers beside its workers, which end all the same.
  EXPECT_TRUE(
      Eventually([&] { return ProcessesWith(absl::StrCat("TMPDIR=", Path("tmp"))).empty(); }));
  const Ended copies = RunSmall("copies", Exact({"cluster.copies=2", "cluster.servers=2"}) +
                                              std::vector<std::string>{"--servers-on-workers"});
  EXPECT_EQ(copies.code, 2);
  EXPECT_THAT(copies.err, HasSubstr("for one copy of each shard"));
}

TEST_F(Servers, BesideAWorkerThatCannotJoinAreSaid) {
  const Ended ended = RunProgram({"ps-worker", "--cpu", "--server", "127.0.0.1:9", "--with-server",
                                  Path("beside"), "--connect-deadline", "1s"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("the server beside this worker does not join"));
}

// All servers die, one after the other, at any moment. The workers live.
TEST_F(Servers, ThatDieGoOnWithTheirJournals) {
  const std::vector<std::string> settings = {"train.epochs=36", "durability.acknowledge=journal",
                                             "durability.checkpoint=5 epochs",
                                             "durability.journal=64KiB"};
  RunCalm(settings);
  Process run(PsRun("run", Exact(settings) + Sets({"cluster.servers=3"})));
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(run.WaitFor(absl::StrCat("epoch ", 4 + 4 * i, "/36"))) << run.Err();
    std::vector<pid_t> servers;
    // The one that was killed before may still be on its way back.
    ASSERT_TRUE(Eventually([&] { return (servers = run.Children("ps-server")).size() == 3; }))
        << run.Err();
    ASSERT_EQ(kill(servers[i % 3], SIGKILL), 0);
  }
  const Ended ended = run.Wait();
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("it is started again"));
  EXPECT_TRUE(Weights("run") == Weights("calm"));
  EXPECT_EQ(Losses("run").back(), Losses("calm").back());
}

TEST_F(Servers, ComeAndGoWhileTrainingGoesOn) {
  const std::vector<std::string> settings = {"train.epochs=60"};
  RunCalm(settings);
  Start(settings);
  ASSERT_TRUE(coordinator_->WaitFor("epoch 2: test accuracy")) << coordinator_->Err();
  const auto second = Joined("second");
  ASSERT_TRUE(WaitHeld(2, 2)) << second->Err() << coordinator_->Err();
  // The run waits for a worker that stands still, so it does not end before the third comes.
  workers_[1]->Signal(SIGSTOP);
  const auto third = Joined("third");
  ASSERT_TRUE(WaitHeld(3, 1)) << third->Err();
  workers_[1]->Signal(SIGCONT);
  const Ended moved = Rebalance({"--move", "0=3", "--move", "1=3"});
  EXPECT_EQ(moved.code, 0) << moved.err;
  EXPECT_THAT(moved.out, HasSubstr("server 3: 0 1"));
  ASSERT_TRUE(Eventually([&] { return Held(address_, 3) >= 2; }));
  // Its shards move to the others before it ends.
  third->Signal(SIGTERM);
  const Ended left = third->Wait();
  EXPECT_EQ(left.code, 3) << left.err;
  EXPECT_THAT(left.err, HasSubstr("its shards are on other servers"));
  ExpectFinished();
  EXPECT_EQ(second->Wait().code, 0) << second->Err();
  EXPECT_TRUE(Weights("run") == Weights("calm"));
}

TEST_F(Servers, ThatHangAreWaitedFor) {
  const std::vector<std::string> settings = {"train.epochs=20"};
  RunCalm(settings);
  Process run(PsRun("run", Exact(settings) + Sets({"cluster.servers=2"})));
  ASSERT_TRUE(run.WaitFor("epoch 4/20")) << run.Err();
  const pid_t second = run.Children("ps-server").back();
  ASSERT_EQ(kill(second, SIGSTOP), 0);
  Pause(3s);
  // The control plane goes on meanwhile.
  EXPECT_TRUE(StatusOf(ServerOf(run)).is_object());
  ASSERT_EQ(kill(second, SIGCONT), 0);
  const Ended ended = run.Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_TRUE(Weights("run") == Weights("calm"));
}

TEST_F(Servers, ThatAreAwayWhenTheRunIsToStopAreNamed) {
  Start({"train.epochs=100000", "cluster.lease=1s", "cluster.deadline=8s"});
  ASSERT_TRUE(coordinator_->WaitFor("epoch 2: test accuracy")) << coordinator_->Err();
  const auto second = Joined("second");
  ASSERT_TRUE(WaitHeld(2, 2)) << second->Err();
  second->Signal(SIGKILL);
  second->Wait();
  coordinator_->Signal(SIGTERM);
  EXPECT_TRUE(coordinator_->WaitFor("stopping waits until server 2 (", 8s)) << coordinator_->Err();
  // The coordinator does not wait longer than it says.
  EXPECT_THAT(coordinator_->Wait(20s).err,
              HasSubstr("with 2 shards) is back, at most 8s (cluster.deadline)"));
}

// With a journal the run could wait for them for ever.
TEST_F(Servers, ThatAreAwayWhenTheRunIsToStopAreNamedByPsRun) {
  Process run(PsRun("run", Exact({"train.epochs=100000", "durability.acknowledge=journal"}) +
                               Sets({"cluster.lease=1s", "cluster.deadline=2s"})));
  ASSERT_TRUE(run.WaitFor("epoch 2/")) << run.Err();
  address_ = ServerOf(run);
  const auto second = Joined("second");
  ASSERT_TRUE(WaitHeld(2, 2)) << second->Err();
  second->Signal(SIGKILL);
  second->Wait();
  run.Signal(SIGINT);
  EXPECT_TRUE(run.WaitFor("stopping waits until server 2 (")) << run.Err();
  EXPECT_EQ(run.Wait(6s).code, 3) << run.Err();
}

TEST_F(Servers, ThatHangWhenTheRunIsDrainedAreNotWaitedForWithoutEnd) {
  Start({"train.epochs=100000", "durability.acknowledge=journal", "cluster.lease=1s",
         "cluster.deadline=2s"});
  ASSERT_TRUE(coordinator_->WaitFor("epoch 2: test accuracy")) << coordinator_->Err();
  const auto second = Joined("second");
  ASSERT_TRUE(WaitHeld(2, 2)) << second->Err();
  second->Signal(SIGSTOP);
  RunProgram({"ps-ctl", "drain", "--server", address_});
  EXPECT_TRUE(
      coordinator_->WaitFor("is back (if it died: ps-server --join with its --run-dir), at "
                            "most 4s (cluster.deadline twice)",
                            5s))
      << coordinator_->Err();
  const Ended ended = coordinator_->Wait(6s);
  EXPECT_EQ(ended.code, 3) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("goes on from the journal"));
}

// Servers hold as much as their links carry in the same time.
TEST_F(Servers, WithFasterLinksHoldMore) {
  Start({"train.epochs=100000"}, {"--link", "4gbit"});
  const auto slow = Joined("slow", {"--link", "1gbit"});
  ASSERT_TRUE(WaitHeld(2, 1)) << slow->Err();
  EXPECT_EQ(Held(address_, 1), 4);
  EXPECT_THAT(RunProgram({"ps-ctl", "status", "--server", address_}).out,
              testing::ContainsRegex("1 \\(leads\\) +[^ ]+ +- +4gbit +live +4 "));
}

TEST_F(Servers, AreWaitedForAtTheStart) {
  Start({"train.epochs=3", "cluster.servers=2"});
  ASSERT_TRUE(workers_[0]->WaitFor("servers: 1 of 2 are here")) << workers_[0]->Err();
  const auto second = Joined("second");
  ExpectFinished();
  EXPECT_EQ(second->Wait().code, 0) << second->Err();
}

// ps-ctl verify checks each server's own part.
TEST_F(Servers, AreVerifiedOneByOne) {
  const std::vector<std::string> settings = {"train.epochs=100000",
                                             "durability.acknowledge=journal"};
  Start(settings);
  ASSERT_TRUE(coordinator_->WaitFor("epoch 2: test accuracy")) << coordinator_->Err();
  const auto second = Joined("second");
  ASSERT_TRUE(WaitHeld(2, 2)) << second->Err() << coordinator_->Err();
  for (auto& worker : workers_) worker.reset();
  second->Signal(SIGKILL);
  second->Wait();
  coordinator_->Signal(SIGKILL);
  coordinator_->Wait();
  const Ended first = RunProgram({"ps-ctl", "verify", Path("run")});
  EXPECT_EQ(first.code, 0) << first.out << first.err;
  EXPECT_THAT(first.out, HasSubstr("on server 2"));
  const Ended joined = RunProgram({"ps-ctl", "verify", Path("second")});
  EXPECT_EQ(joined.code, 0) << joined.out << joined.err;
  EXPECT_THAT(joined.out, HasSubstr("shard"));
}

TEST_F(Servers, AreResumedAsAnyNumberOfThem) {
  const std::vector<std::string> settings = {"train.epochs=6"};
  RunCalm(settings);
  ASSERT_EQ(RunSmall("run", Exact({"train.epochs=3"}) + Sets({"cluster.servers=3"})).code, 0);
  const Ended resumed = RunProgram(
      {"ps-run", "--resume", Path("run"), "--set", "train.epochs=6", "--set", "cluster.servers=2"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(Weights("run") == Weights("calm"));
  EXPECT_EQ(RunProgram({"ps-ctl", "verify", Path("run")}).code, 0);
}

TEST_F(Servers, WhoseMemoryIsLostEndTheRun) {
  Start({"train.epochs=2000"});
  ASSERT_TRUE(coordinator_->WaitFor("epoch 2: test accuracy")) << coordinator_->Err();
  auto second = Joined("second");
  ASSERT_TRUE(WaitHeld(2, 2)) << second->Err();
  second->Signal(SIGKILL);
  second->Wait();
  second = Joined("second");
  const Ended failed = coordinator_->Wait();
  EXPECT_EQ(failed.code, 1) << failed.err;
  EXPECT_THAT(Summary("run")["error"].get<std::string>(), HasSubstr("came back without shard"));
  EXPECT_NE(second->Wait().code, 0);
}

TEST_F(Servers, OfASecuredRunShowCertificates) {
  const Certificates certificates;
  const std::vector<std::string> tls = {"--tls-dir", certificates.dir()};
  Process run(PsRun("run", Exact({"train.epochs=12", "cluster.servers=2"}) + tls));
  ASSERT_TRUE(run.WaitFor("epoch 2/12")) << run.Err();
  // The run waits for a worker that stands still, so it is there when the stranger comes.
  const std::vector<pid_t> workers = run.Children("ps-worker");
  ASSERT_EQ(workers.size(), 2u);
  ASSERT_EQ(kill(workers[1], SIGSTOP), 0);
  const Ended stranger = RunProgram({"ps-server", "--join", ServerOf(run), "--run-dir",
                                     Path("stranger"), "--connect-deadline", "1s"});
  EXPECT_NE(stranger.code, 0);
  EXPECT_THAT(stranger.err, HasSubstr("ask for certificates (--tls-dir)"));
  ASSERT_EQ(kill(workers[1], SIGCONT), 0);
  const Ended ended = run.Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(Summary("run")["epochs"], 12.0);
}

TEST_F(Servers, WhatCannotBeIsSaid) {
  Ended ended = RunProgram({"ps-server", "--join", "nowhere"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("--join takes HOST:PORT"));
  ended = RunProgram({"ps-server", "--join", "127.0.0.1:1", "--connect-deadline", "300ms"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("no server of the run answers at 127.0.0.1:1"));
  ended = RunProgram({"ps-server", "--join", "small", "--etcd", "127.0.0.1:1", "--beside-worker"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("say --bind too"));
  ended = RunProgram(
      {"ps-server", "--config", SmallConfig(), "--run-dir", Path("run"), "--link", "fast"});
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.err, HasSubstr("--link: expected the speed of a link, such as 100mbit"));
  ended = RunSmall("run", {"--servers-on-workers", "--shards", "1"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("--servers-on-workers with 2 workers: config: cluster.servers "
                                   "is 2, but there are only 1 shards"));
  ended = RunSmall("run", Sets({"cluster.servers=2", "cluster.pin=true"}));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("cluster.pin is for a server that is alone on its machine"));
  ended = RunSmall("run", Sets({"cluster.servers=3"}));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("there are only 2 shards to share"));
  Start({"train.epochs=100000"});
  ASSERT_TRUE(coordinator_->WaitFor("epoch 2: test accuracy")) << coordinator_->Err();
  ended = Rebalance({"--move", "0=7"});
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.err, HasSubstr("server 7 is not there"));
  ended = Rebalance({"--move", "9=1"});
  EXPECT_THAT(ended.err, HasSubstr("there is no shard 9"));
  ended = Rebalance({"--move", "one"});
  EXPECT_THAT(ended.err, HasSubstr("is not SHARD=SERVER"));
  // The directory belongs to another run.
  const auto second = Joined("second");
  ASSERT_TRUE(WaitHeld(2, 2)) << second->Err();
  Process other(std::vector<std::string>{"ps-server", "--config", SmallConfig(), "--port", "0",
                                         "--run-dir", Path("other")});
  second->Signal(SIGKILL);
  second->Wait();
  ended = RunProgram({"ps-server", "--join", ServerOf(other), "--run-dir", Path("second")});
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.err, HasSubstr("is of another run"));
  for (auto& worker : workers_) worker.reset();
  coordinator_.reset();
}

}  // namespace
}  // namespace psgd
