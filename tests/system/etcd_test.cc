// Runs whose servers settle in etcd who leads: Debian's etcd, real servers and workers.
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/certificates/certificates.h"
#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

constexpr char kEtcd[] = "/usr/bin/etcd";

// Of this machine, that nobody listens on just now.
int FreePort() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(socket, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(socket);
  return ntohs(address.sin_port);
}

class Etcd : public RunTest {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kEtcd)) {
      GTEST_SKIP() << "no " << kEtcd << "; scripts/install-packages.sh etcd-server installs it";
    }
  }
  void TearDown() override {
    // What a test that failed has not ended.
    for (auto& worker : workers_) worker.reset();
    servers_.clear();
    etcd_.reset();
    RunTest::TearDown();
  }
  void StartEtcd(const Certificates* certificates = nullptr) {
    const std::string scheme = certificates == nullptr ? "http" : "https";
    // It cannot choose its ports itself, so somebody else may be faster.
    for (int attempt = 0; attempt < 5; ++attempt) {
      const int port = FreePort();
      etcd_address_ = absl::StrCat("127.0.0.1:", port);
      etcd_options_ = absl::StrCat(certificates == nullptr ? "" : "https://", etcd_address_);
      const std::string clients = absl::StrCat(scheme, "://", etcd_address_);
      const std::string peers = absl::StrCat("http://127.0.0.1:", FreePort());
      etcd_command_ = {kEtcd, "--data-dir", Path("etcd"), "--listen-client-urls", clients,
                       "--advertise-client-urls", clients, "--listen-peer-urls", peers,
                       "--initial-advertise-peer-urls", peers, "--initial-cluster", "default=" + peers,
                       "--unsafe-no-fsync"};
      if (certificates != nullptr) {
        etcd_command_ = etcd_command_ +
                        std::vector<std::string>{"--client-cert-auth", "--trusted-ca-file",
                                                 certificates->Path("ca.crt"), "--cert-file",
                                                 certificates->Path("server.crt"), "--key-file",
                                                 certificates->Path("server.key")};
      }
      etcd_ = std::make_unique<Process>(etcd_command_);
      if (etcd_->WaitFor("client requests on")) return;
    }
    FAIL() << etcd_->Err();
  }

  std::vector<std::string> Leading(const std::string& run_dir, std::vector<std::string> settings) const {
    return std::vector<std::string>{"ps-server", "--config", SmallConfig(), "--port",    "0",
                                    "--etcd",    etcd_options_,             "--run-dir", Path(run_dir)} +
           Sets({"durability.acknowledge=replicated", "cluster.resend=200ms", "cluster.lease=20s"}) +
           Sets(std::move(settings));
  }
  std::vector<std::string> Following(const std::string& run_dir) const {
    return {"ps-server", "--follow", "small", "--etcd", etcd_options_, "--port", "0", "--run-dir", Path(run_dir)};
  }
  std::vector<std::string> Worker() const {
    return {"ps-worker", "--cpu", "--etcd", etcd_options_, "--run", "small"};
  }
  // A leader, so many that follow it, and two workers that know of etcd alone; in training.
  void StartRun(const std::vector<std::string>& settings, int followers = 1,
                const std::vector<std::string>& more = {}) {
    servers_.push_back(std::make_unique<Process>(
        Leading("server-1", settings + std::vector<std::string>{absl::StrCat("durability.followers=", followers)}) +
        more));
    ASSERT_NE(ServerOf(*servers_[0]), "") << servers_[0]->Err();
    for (int i = 2; i <= followers + 1; ++i) {
      servers_.push_back(std::make_unique<Process>(Following(absl::StrCat("server-", i)) + more));
      // One after the other, so that they are numbered as they are here.
      ASSERT_TRUE(servers_.back()->WaitFor("following:")) << servers_.back()->Err();
    }
    for (auto& worker : workers_) worker = std::make_unique<Process>(Worker() + more);
    ASSERT_TRUE(servers_[0]->WaitFor("epoch 2: test accuracy")) << servers_[0]->Err();
  }
  void Kill(Process& process) {
    process.Signal(SIGKILL);
    process.Wait();
  }
  void ExpectWorkersFinish() {
    for (auto& worker : workers_) EXPECT_EQ(worker->Wait().code, 0) << worker->Err();
  }
  // ps-run, which starts its servers itself.
  std::vector<std::string> LedByPsRun(const std::string& run_dir, const std::vector<std::string>& settings) const {
    return PsRun(run_dir, Sets({"durability.acknowledge=replicated", "cluster.resend=200ms", "cluster.lease=20s"}) +
                              Sets(settings) + std::vector<std::string>{"--etcd", etcd_options_});
  }
  // The servers that etcd knows, the one that leads first.
  std::vector<int> Chain() const {
    std::vector<int> replicas;
    const Json status = StatusByName();
    if (!status.is_object()) return {};
    for (const Json& member : status["chain"]["members"]) replicas.push_back(member["replica"]);
    return replicas;
  }
  Json StatusByName() const {
    const Ended ended =
        RunProgram({"ps-ctl", "status", "--etcd", etcd_options_, "--run", "small", "--json"});
    return ended.code == 0 ? Json::parse(ended.out) : Json();
  }

  std::string etcd_address_, etcd_options_;
  std::vector<std::string> etcd_command_;
  std::unique_ptr<Process> etcd_;
  std::vector<std::unique_ptr<Process>> servers_;
  std::unique_ptr<Process> workers_[2];
};

// Servers die one after the other, and new ones come: what is left in the end is an undisturbed run.
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
  ASSERT_TRUE(servers_[1]->WaitFor("follows: acknowledgements")) << servers_[1]->Err() << servers_[3]->Err();
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
  ASSERT_TRUE(servers_[0]->WaitFor("nobody can change which servers the run has")) << servers_[0]->Err();
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
  ASSERT_TRUE(servers_[1]->WaitFor("does not take over: etcd at " + etcd_address_)) << servers_[1]->Err();
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
  ASSERT_TRUE(Eventually([&] {
    const Json status = StatusOf(ServerOf(*servers_[0]));
    return status.is_object() && status["chain"]["members"].size() == 2;
  })) << servers_[0]->Err() << servers_[1]->Err();
  EXPECT_THAT(servers_[1]->Err(), Not(HasSubstr("took over")));
  Kill(*servers_[0]);
  ExpectWorkersFinish();
  EXPECT_EQ(servers_[1]->Wait().code, 0) << servers_[1]->Err();
  EXPECT_EQ(Summary("server-2")["epochs"], 150.0);
}

// All servers die; one goes on at another address, where workers find it by the run's name.
TEST_F(Etcd, ARecoveredServerMayMove) {
  StartEtcd();
  StartRun({"train.epochs=120"});
  const std::string before = ServerOf(*servers_[0]);
  Kill(*servers_[1]);
  Kill(*servers_[0]);
  const Ended tied = RunProgram({"ps-server", "--recover", Path("server-1"), "--port", "0"});
  EXPECT_EQ(tied.code, 2);
  EXPECT_THAT(tied.err, HasSubstr("unless they find it by --etcd"));
  servers_[0] = std::make_unique<Process>(std::vector<std::string>{
      "ps-server", "--recover", Path("server-1"), "--port", "0", "--etcd", etcd_options_});
  EXPECT_NE(ServerOf(*servers_[0]), before) << servers_[0]->Err();
  ExpectWorkersFinish();
  EXPECT_EQ(servers_[0]->Wait().code, 0) << servers_[0]->Err();
  EXPECT_EQ(Summary("server-1")["epochs"], 120.0);
}

TEST_F(Etcd, OneThatWasDroppedDoesNotGoOn) {
  StartEtcd();
  StartRun({"train.epochs=400"});
  Kill(*servers_[1]);
  ASSERT_TRUE(servers_[0]->WaitFor("is gone: the run goes on without it")) << servers_[0]->Err();
  Kill(*servers_[0]);
  const Ended dropped =
      RunProgram({"ps-server", "--recover", Path("server-2"), "--etcd", etcd_options_});
  EXPECT_NE(dropped.code, 0);
  EXPECT_THAT(dropped.err, HasSubstr("server 2 is not in the run's chain by now"));
  const Ended another = RunProgram(Leading("another", {}));
  EXPECT_NE(another.code, 0);
  EXPECT_THAT(another.err, HasSubstr("etcd holds a run of this name already, led by server 1"));
  EXPECT_THAT(another.err, HasSubstr("--set name="));
  for (auto& worker : workers_) worker->Signal(SIGKILL);
}

TEST_F(Etcd, OfASecuredRunIsShownCertificates) {
  const Certificates certificates;
  StartEtcd(&certificates);
  const std::vector<std::string> tls = {"--tls-dir", certificates.dir()};
  StartRun({"train.epochs=80"}, 1, tls);
  const Ended stranger =
      RunProgram({"ps-worker", "--cpu", "--etcd", etcd_address_, "--run", "small", "--connect-deadline", "1s"});
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
  ASSERT_TRUE(run.WaitFor("watch it with: ps-ctl status --etcd " + etcd_options_ + " --run small")) << run.Err();
  ASSERT_TRUE(run.WaitFor("epoch 2/200")) << run.Err();
  EXPECT_EQ(Chain(), (std::vector{1, 2}));
  // Without its word nobody takes over.
  etcd_->Signal(SIGSTOP);
  ASSERT_EQ(kill(run.Children("ps-server").front(), SIGKILL), 0);
  ASSERT_TRUE(Eventually([&] {
    return File("run/follower-1/server/server.log").find("does not take over: etcd") != std::string::npos;
  })) << run.Err();
  etcd_->Signal(SIGCONT);
  ASSERT_TRUE(run.WaitFor("took over after")) << run.Err();
  ASSERT_TRUE(Eventually([&] { return Chain() == std::vector{2, 3}; })) << run.Err();
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
  const std::vector<std::string> resume = {"ps-run", "--resume", Path("run"), "--etcd", etcd_options_};
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
  EXPECT_THAT(ended.err, HasSubstr("add --set durability.acknowledge=replicated"));
  ended = RunProgram(LedByPsRun("away", {"durability.acknowledge=memory"}));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("add --set durability.acknowledge=replicated"));
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
