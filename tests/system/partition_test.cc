// Three servers with two copies of each shard, each beside a member of etcd, on a network of the
// test's own that is cut in two, and heals.
#include <unistd.h>

#include <chrono>
#include <memory>
#include <thread>

#include "tests/system/etcd_run_test.h"

namespace psgd {
namespace {

constexpr int kServers = 3;
constexpr int kHosts = 5;  // 1 to 3: a server and a member of etcd; 4 and 5: a worker

// Parameter: whether hosts have a fast network.
class Partition : public EtcdTest, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    EtcdTest::SetUp();
    if (IsSkipped()) return;
    const Ended up = RunProgram(NetworkScript({"up", std::to_string(kHosts)}));
    if (up.code != 0) GTEST_SKIP() << "this machine lets no networks be made: " << up.err;
    up_ = true;
  }
  void TearDown() override {
    for (auto& worker : workers_) worker.reset();
    servers_.clear();
    etcd_members_.clear();
    if (up_) {
      EXPECT_EQ(RunProgram(NetworkScript({"down"})).code, 0);
    }
    EtcdTest::TearDown();
  }

  static std::vector<std::string> On(int host, const std::vector<std::string>& command) {
    return NetworkScript({IsFast(host) ? "run-fast" : "run", std::to_string(host)}) + command;
  }
  // The servers differ: data go over UCX to two of them, over ZeroMQ to the third.
  static bool IsFast(int host) { return GetParam() && host != 3; }
  static std::string Address(int host) { return absl::StrCat("10.77.0.", host); }

  void StartEtcdMembers() {
    std::string cluster;
    for (int i = 1; i <= kServers; ++i) {
      absl::StrAppend(&cluster, i == 1 ? "" : ",", "m", i, "=http://", Address(i), ":2380");
      absl::StrAppend(&etcd_options_, i == 1 ? "" : ",", Address(i), ":2379");
    }
    for (int i = 1; i <= kServers; ++i) {
      const std::string clients = absl::StrCat("http://", Address(i), ":2379");
      const std::string peers = absl::StrCat("http://", Address(i), ":2380");
      etcd_members_.push_back(std::make_unique<Process>(On(
          i, {kEtcd, "--name", absl::StrCat("m", i), "--data-dir", Path(absl::StrCat("etcd-", i)),
              "--listen-client-urls", clients, "--advertise-client-urls", clients,
              "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
              "--initial-cluster", cluster, "--unsafe-no-fsync"})));
    }
    for (const auto& member : etcd_members_)
      ASSERT_TRUE(member->WaitFor("client requests on")) << member->Err();
  }
  void StartServers(const std::vector<std::string>& settings) {
    for (int i = 1; i <= kServers; ++i) {
      std::vector<std::string> command = i == 1
                                             ? std::vector<std::string>{"--config", SmallConfig()} +
                                                   Copied(kServers) + Sets(settings)
                                             : std::vector<std::string>{"--join", "small"};
      command =
          std::vector<std::string>{ProgramPath("ps-server")} + command +
          std::vector<std::string>{"--bind",      Address(i),   "--port",
                                   "7070",        "--insecure", "--etcd",
                                   etcd_options_, "--run-dir",  Path(absl::StrCat("server-", i))};
      servers_.push_back(std::make_unique<Process>(On(i, command)));
      ASSERT_TRUE(servers_.back()->WaitFor(i == 1 ? "ready" : "joined:")) << servers_.back()->Err();
    }
  }
  void StartWorkers() {
    for (int i = 0; i < 2; ++i) {
      workers_[i] = std::make_unique<Process>(
          On(kServers + 1 + i, {ProgramPath("ps-worker"), "--cpu", "--etcd", etcd_options_, "--run",
                                "small", "--step-delay", "10ms"}));
    }
  }

  // Packets between the two hosts go nowhere, or arrive again.
  static void SetCut(int a, int b, bool cut) {
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
      const Ended set = RunProgram(
          On(from, {"ip", "route", cut ? "add" : "del", "blackhole", Address(to) + "/32"}));
      ASSERT_EQ(set.code, 0) << set.err;
    }
  }
  // As that host hears of the run; null: nobody answers.
  Json StatusOn(int host, int server) const {
    const Ended ended = RunProgram(On(
        host, {ProgramPath("ps-ctl"), "status", "--server", Address(server) + ":7070", "--json"}));
    return ended.code == 0 ? Json::parse(ended.out) : Json();
  }
  // The clock of the run by a status; -1: there is none.
  static int64_t ClockOf(const Json& status) {
    return status.is_object() ? std::stoll(status["clock"].get<std::string>()) : -1;
  }
  // The server that leads the run, as host 2 or host 3 hears; 0: nobody does.
  int Leader(int host) const {
    const Json status = StatusOn(host, host);
    if (!status.is_object()) return 0;
    for (const Json& server : status["servers"]) {
      if (server["leads"] == true) return server["server"];
    }
    return 0;
  }
  bool AllInSync(int host) const {
    const Json status = StatusOn(host, host);
    if (!IsInSync(status)) return false;
    return std::all_of(status["servers"].begin(), status["servers"].end(),
                       [](const Json& server) { return server["connected"] == true; });
  }

  bool up_ = false;
  std::vector<std::unique_ptr<Process>> etcd_members_;
};

INSTANTIATE_TEST_SUITE_P(Networks, Partition, testing::Bool());

TEST_P(Partition, NeverHasTwoLeadersAndLosesNothing) {
  const std::vector<std::string> settings = {"train.epochs=12", "consistency.staleness=0",
                                             "optimizer.sgd.momentum=0.9", "cluster.lease=2min",
                                             "cluster.deadline=4min"};
  ASSERT_EQ(RunSmall("calm", Sets(settings)).code, 0);
  StartEtcdMembers();
  StartServers(settings);
  StartWorkers();
  ASSERT_TRUE(servers_[0]->WaitFor("epoch 2: test accuracy")) << servers_[0]->Err();
  // The run waits for a worker that stands still, so a few epochs are enough.
  Hold();
  ASSERT_TRUE(Eventually([&] { return AllInSync(1); })) << servers_[0]->Err();
  ASSERT_EQ(Leader(1), 1);
  Release();
  ASSERT_TRUE(TrainsOn(*servers_[0])) << servers_[0]->Err();

  // The server that leads, and one of the workers, against all others.
  const std::vector<std::pair<int, int>> between = {{1, 2}, {1, 3}, {1, 5}, {4, 2}, {4, 3}, {4, 5}};
  for (const auto& [a, b] : between) SetCut(a, b, true);
  ASSERT_TRUE(Eventually([&] { return Leader(2) > 1 || Leader(3) > 1; }))
      << servers_[1]->Err() << servers_[2]->Err();
  // The server that was replaced may not know it, but the run does not go on where it is.
  const int64_t before = ClockOf(StatusOn(1, 1));
  for (int i = 0; i < 10; ++i) {
    const int64_t clock = ClockOf(StatusOn(1, 1));
    EXPECT_TRUE(clock == -1 || clock == before) << "the minority trains on: " << clock;
    std::this_thread::sleep_for(100ms);
  }
  Hold();
  for (const auto& [a, b] : between) SetCut(a, b, false);
  ASSERT_TRUE(Eventually([&] { return AllInSync(2) || AllInSync(3); }))
      << servers_[0]->Err() << servers_[1]->Err();
  const int leader = std::max(Leader(2), Leader(3));
  ASSERT_GT(leader, 1);
  EXPECT_TRUE(Eventually([&] { return Leader(1) == 0 || Leader(1) == leader; }))
      << "server 1 leads still: " << servers_[0]->Err();

  // The other way round: servers hear each other, and workers do not hear one of them.
  const int64_t reached = ClockOf(StatusOn(leader, leader));
  ASSERT_GE(reached, 0) << servers_[leader - 1]->Err();
  for (int worker = 4; worker <= kHosts; ++worker) SetCut(worker, leader, true);
  Release();
  std::this_thread::sleep_for(3s);
  EXPECT_EQ(std::max(Leader(2), Leader(3)), leader) << "a server that lives was replaced";
  for (int worker = 4; worker <= kHosts; ++worker) SetCut(worker, leader, false);

  ExpectWorkersFinish();
  for (auto& server : servers_) EXPECT_EQ(server->Wait().code, 0) << server->Err();
  const std::string results = absl::StrCat("server-", leader);
  EXPECT_EQ(Summary(results)["status"], "finished");
  EXPECT_TRUE(Weights(results) == Weights("calm"));
}

}  // namespace
}  // namespace psgd
