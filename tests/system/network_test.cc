// Server and worker on two hosts of the test's own network, with links that are slow and break.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <regex>
#include <thread>

#include "tests/system/run_test.h"

namespace psgd {
namespace {

using namespace std::chrono_literals;

class Network : public RunTest {
 protected:
  explicit Network(std::vector<std::string> hosts = {"2", "20mbit"}) : hosts_(std::move(hosts)) {}
  void SetUp() override {
    const Ended up = RunProgram(NetworkScript(std::vector<std::string>{"up"} + hosts_));
    if (up.code != 0) GTEST_SKIP() << "this machine lets no networks be made: " << up.err;
    up_ = true;
  }
  void TearDown() override {
    if (up_) {
      EXPECT_EQ(RunProgram(NetworkScript({"down"})).code, 0);
    }
    RunTest::TearDown();
  }

  static std::vector<std::string> On(int host, const std::string& program,
                                     const std::vector<std::string>& arguments) {
    return NetworkScript({"run", std::to_string(host), ProgramPath(program)}) + arguments;
  }

  std::vector<std::string> Alone() const {
    return Sets(
        {"cluster.workers=1", "consistency.staleness=0", "train.epochs=2", "cluster.resend=300ms"});
  }
  // The weights of a run on this host, for comparison.
  std::string Near() const {
    EXPECT_EQ(RunSmall("near", Alone()).code, 0);
    return Weights("near");
  }

 private:
  const std::vector<std::string> hosts_;
  bool up_ = false;
};

class FastNetwork : public Network {
 protected:
  FastNetwork() : Network({"4"}) {}
  // On a host with a fast network.
  static std::vector<std::string> OnFast(int host, const std::string& program,
                                         const std::vector<std::string>& arguments) {
    return NetworkScript({"run-fast", std::to_string(host), ProgramPath(program)}) + arguments;
  }
};

// Servers and workers with and without UCX, which join, take shards and leave.
TEST_F(FastNetwork, IsUsedWhereBothHaveItAndShutsNobodyOut) {
  const std::vector<std::string> settings =
      Sets({"train.epochs=45", "consistency.staleness=0", "cluster.shards=5", "cluster.slice=1KiB",
            "compression.push=topk", "cluster.resend=300ms"});
  ASSERT_EQ(RunSmall("calm", settings).code, 0);
  Process server(OnFast(1, "ps-server",
                        std::vector<std::string>{"--config", SmallConfig(), "--bind", "10.77.0.1",
                                                 "--insecure", "--run-dir", Path("far")} +
                            settings));
  const std::string address = ServerOf(server);
  ASSERT_EQ(address, "10.77.0.1:7070") << server.Err();
  const std::vector<std::string> arguments = {"--cpu", "--server", address, "--step-delay", "5ms"};
  Process with_ucx(OnFast(2, "ps-worker", arguments));
  Process without(std::vector<std::string>{"/usr/bin/env", "UCX_TLS=none"} +
                  OnFast(3, "ps-worker", arguments));
  ASSERT_TRUE(with_ucx.WaitFor("UCX reaches 5 of 5 shards")) << with_ucx.Err();
  ASSERT_TRUE(without.WaitFor("because UCX does not start: ")) << without.Err();
  ASSERT_TRUE(server.WaitFor("epoch 2: test accuracy")) << server.Err();

  const auto joined = [&](const std::string& run_dir, const std::string& at) {
    return std::vector<std::string>{"--join",     address,     "--bind",     at,
                                    "--insecure", "--run-dir", Path(run_dir)};
  };
  Process slow(On(3, "ps-server", joined("slow", "10.77.0.3")));
  ASSERT_TRUE(with_ucx.WaitFor("UCX reaches 3 of 5 shards")) << slow.Err() << with_ucx.Err();
  Process fast(OnFast(4, "ps-server", joined("fast", "10.77.0.4")));
  ASSERT_TRUE(server.WaitFor("to server 3")) << fast.Err() << server.Err();
  slow.Signal(SIGTERM);
  EXPECT_EQ(slow.Wait().code, 3) << slow.Err();
  const Ended ended = with_ucx.Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err.substr(ended.err.rfind("UCX reaches")), testing::HasSubstr("5 of 5"));
  EXPECT_EQ(without.Wait().code, 0) << without.Err();
  EXPECT_EQ(fast.Wait().code, 0) << fast.Err();
  EXPECT_EQ(server.Wait().code, 0) << server.Err();
  EXPECT_TRUE(Weights("far") == Weights("calm"));
}

// The device that UCX is told to use leads nowhere, as a cable into another network.
TEST_F(FastNetwork, ThatCarriesNothingGivesPlaceToZeroMq) {
  for (const char* host : {"1", "2"}) {
    const Ended added = RunProgram(NetworkScript(
        {"run", host, "/bin/sh", "-ec",
         std::string("ip link add dead0 type veth peer name dead1; ip addr add 10.78.0.") + host +
             "/24 dev dead0; ip link set dead0 up; ip link set dead1 up"}));
    ASSERT_EQ(added.code, 0) << added.err;
  }
  const std::vector<std::string> dead = {"/usr/bin/env", "UCX_NET_DEVICES=dead0"};
  Process server(dead +
                 OnFast(1, "ps-server",
                        std::vector<std::string>{"--config", SmallConfig(), "--bind", "10.77.0.1",
                                                 "--insecure", "--run-dir", Path("far")} +
                            Sets({"cluster.workers=1", "train.epochs=100000"})));
  const std::string address = ServerOf(server);
  ASSERT_EQ(address, "10.77.0.1:7070") << server.Err();
  Process worker(dead + OnFast(2, "ps-worker", {"--cpu", "--server", address}));
  ASSERT_TRUE(worker.WaitFor("UCX gets no answer from tcp://10.77.0.1:")) << worker.Err();
  ASSERT_TRUE(server.WaitFor("epoch 1: test accuracy")) << server.Err() << worker.Err();
  EXPECT_THAT(worker.Err(), testing::AllOf(testing::HasSubstr(" over tcp/dead0"),
                                           testing::HasSubstr("over ZeroMQ and TCP instead"),
                                           testing::HasSubstr("cluster.transport: zmq")));
  const Ended status = RunProgram(On(2, "ps-ctl", {"status", "--server", address}));
  EXPECT_THAT(status.out, testing::HasSubstr("worker 0: UCX gets no answer from tcp://10.77.0.1:"));
  server.Signal(SIGINT);
  EXPECT_EQ(server.Wait().code, 3) << server.Err();
  EXPECT_EQ(worker.Wait().code, 0) << worker.Err();
}

TEST_F(Network, ASlowLinkThatBreaksChangesNoBit) {
  Process server(On(1, "ps-server",
                    std::vector<std::string>{"--config", SmallConfig(), "--bind", "10.77.0.1",
                                             "--insecure", "--run-dir", Path("far")} +
                        Alone()));
  const std::string address = ServerOf(server);
  ASSERT_EQ(address, "10.77.0.1:7070") << server.Err();
  Process worker(On(2, "ps-worker", {"--cpu", "--server", address, "--step-delay", "20ms"}));
  ASSERT_TRUE(worker.WaitFor("joined")) << worker.Err();
  std::this_thread::sleep_for(300ms);
  for (const char* state : {"down", "up"}) {
    const Ended link = RunProgram(NetworkScript({"run", "2", "ip", "link", "set", "eth0", state}));
    ASSERT_EQ(link.code, 0) << link.err;
    std::this_thread::sleep_for(700ms);
  }
  EXPECT_EQ(worker.Wait().code, 0) << worker.Err();
  EXPECT_EQ(server.Wait().code, 0) << server.Err();
  EXPECT_EQ(Summary("far")["status"], "finished");
  EXPECT_TRUE(Weights("far") == Near());
}

TEST_F(Network, LostAndReorderedPacketsChangeNoBit) {
  const Ended lossy = RunProgram(NetworkScript({"lossy", "2", "5", "15"}));
  if (lossy.code != 0) GTEST_SKIP() << "this kernel loses no packets on request: " << lossy.err;
  const std::string near = Near();
  for (const char* transport : {"zmq", "grpc"}) {
    const std::string run = std::string("far-") + transport;
    Process server(On(1, "ps-server",
                      std::vector<std::string>{"--config", SmallConfig(), "--bind", "10.77.0.1",
                                               "--insecure", "--run-dir", Path(run)} +
                          Alone() + Sets({std::string("cluster.transport=") + transport})));
    const std::string address = ServerOf(server);
    ASSERT_EQ(address, "10.77.0.1:7070") << server.Err();
    Process worker(On(2, "ps-worker", {"--cpu", "--server", address}));
    EXPECT_EQ(worker.Wait().code, 0) << worker.Err();
    EXPECT_EQ(server.Wait().code, 0) << server.Err();
    EXPECT_TRUE(Weights(run) == near) << transport;
  }
}

// A worker that is cut off for longer than its lease is out when the network heals.
TEST_F(Network, APartitionLongerThanALeaseThatHeals) {
  for (const char* transport : {"zmq", "grpc"}) {
    const std::string run = std::string("far-") + transport;
    Process server(
        On(1, "ps-server",
           std::vector<std::string>{"--config", SmallConfig(), "--bind", "10.77.0.1", "--insecure",
                                    "--run-dir", Path(run)} +
               Sets({"cluster.workers=2", "consistency.staleness=2", "cluster.lease=1s",
                     "cluster.deadline=30s", "cluster.resend=300ms", "train.epochs=100000",
                     std::string("cluster.transport=") + transport})));
    const std::string address = ServerOf(server);
    ASSERT_EQ(address, "10.77.0.1:7070") << server.Err();
    Process near(On(1, "ps-worker", {"--cpu", "--server", address}));
    Process far(On(2, "ps-worker", {"--cpu", "--server", address}));
    ASSERT_TRUE(server.WaitFor("epoch 1: test accuracy")) << server.Err();
    const auto link = [](const char* state) {
      EXPECT_EQ(RunProgram(NetworkScript({"run", "2", "ip", "link", "set", "eth0", state})).code,
                0);
    };
    const auto goes_on = [&] {
      const std::string said = server.Err();
      const size_t then = said.rfind("test accuracy");
      return Eventually([&] { return server.Err().rfind("test accuracy") > then + 500; });
    };
    link("down");
    ASSERT_TRUE(server.WaitFor("not heard of")) << server.Err();
    EXPECT_TRUE(goes_on()) << "training stands still without the one that is cut off";
    link("up");
    const Ended out = far.Wait();
    EXPECT_EQ(out.code, 1) << out.err;
    EXPECT_THAT(out.err, testing::AnyOf(testing::HasSubstr("is out of the run"),
                                        testing::HasSubstr("refuses this worker")));
    Process again(On(2, "ps-worker", {"--cpu", "--server", address}));
    ASSERT_TRUE(again.WaitFor("joined")) << again.Err();
    EXPECT_TRUE(goes_on()) << "training stands still after the network healed";
    server.Signal(SIGTERM);
    EXPECT_EQ(server.Wait().code, 3) << server.Err();
    EXPECT_EQ(near.Wait().code, 0) << near.Err();
    EXPECT_EQ(again.Wait().code, 0) << again.Err();
    EXPECT_GE(Summary(run)["test_accuracy"].get<double>(), 0.85);
    EXPECT_GT(Summary(run)["batches_repeated"].get<uint64_t>(), 0u);
  }
}

// Each push has half a million bytes in fp16.
class AutoOverALink : public Network {
 protected:
  std::vector<std::string> Wide(const std::vector<std::string>& more) const {
    return Sets({"model.hidden=[512,512]", "cluster.workers=1", "compression.pull=fp16",
                 "train.epochs=10", "train.max_steps=60", "cluster.lease=3s"}) +
           Sets(more);
  }
  // Starts both sides, and waits until the worker trains.
  void Start(const std::vector<std::string>& more) {
    server_ = std::make_unique<Process>(
        On(1, "ps-server",
           std::vector<std::string>{"--config", SmallConfig(), "--bind", "10.77.0.1", "--insecure",
                                    "--run-dir", Path("far")} +
               Wide(more)));
    const std::string address = ServerOf(*server_);
    ASSERT_EQ(address, "10.77.0.1:7070") << server_->Err();
    worker_ = std::make_unique<Process>(
        On(2, "ps-worker", {"--cpu", "--server", address, "--step-delay", "50ms"}));
  }
  void Finish() {
    EXPECT_EQ(worker_->Wait().code, 0) << worker_->Err();
    EXPECT_EQ(server_->Wait().code, 0) << server_->Err();
    EXPECT_EQ(Summary("far")["status"], "finished");
  }
  // The codecs of the largest tensor, choice after choice, with the link's speed.
  std::vector<std::string> Choices() const {
    std::vector<std::string> choices;
    for (const Json& record : Metrics("far", "codecs")) {
      for (const Json& tensor : record["tensors"]) {
        if (tensor["parameter"] == "fc2.weight") choices.push_back(tensor["codec"]);
      }
    }
    return choices;
  }
  // The link's speed in each of the worker's measurements. The link of 20 Mbit/s looks faster where
  // a burst passes at once, and slower where the machine is busy: tests ask only for the right
  // order.
  std::vector<double> MegabitsASecond() const {
    const std::regex said("the link carries ([0-9.]+) ([kMG]?)B/s");
    const std::string log = worker_->Err();
    std::vector<double> speeds;
    for (std::sregex_iterator at(log.begin(), log.end(), said), end; at != end; ++at) {
      const std::string unit = (*at)[2];
      speeds.push_back(8 * std::stod((*at)[1]) *
                       (unit == "G"   ? 1e3
                        : unit == "M" ? 1
                        : unit == "k" ? 1e-3
                                      : 1e-6));
    }
    return speeds;
  }
  // Sets the rate between the worker and the server, each way: answers to pushes share the way back
  // with weights.
  static void SetRate(const std::string& rate) {
    for (const auto& [space, device] : {std::pair("2", "eth0"), std::pair("switch", "port1"),
                                        std::pair("1", "eth0"), std::pair("switch", "port2")}) {
      const Ended set =
          RunProgram(NetworkScript({"run", space, "tc", "qdisc", "change", "dev", device, "root",
                                    "tbf", "rate", rate, "burst", "256kb", "latency", "200ms"}));
      ASSERT_EQ(set.code, 0) << set.err;
    }
  }

  std::unique_ptr<Process> server_, worker_;
};

TEST_F(AutoOverALink, ASlowLinkAsksForFewBytes) {
  Start({"compression.push=auto"});
  Finish();
  ASSERT_FALSE(Choices().empty()) << worker_->Err();
  EXPECT_THAT(Choices().back(), testing::AnyOf("onebit", "topk"));
  EXPECT_GT(MegabitsASecond().front(), 5);
  EXPECT_LT(MegabitsASecond().front(), 40);
}

// Both candidates push enough bytes to show the link's speed.
TEST_F(AutoOverALink, AnotherLinkIsNoticedAndMeasured) {
  Start({"compression.push.auto.codecs=[{powersgd: {rank: 64}}]",
         "compression.push.auto.remeasure=0ms", "train.max_steps=300"});
  ASSERT_TRUE(Eventually([&] { return !Choices().empty(); }, 120s)) << worker_->Err();
  const double chosen = Metrics("far", "codecs").front()["clock"].get<double>();
  // Waits until the worker has learned the usual times.
  ASSERT_TRUE(Eventually(
      [&] {
        const std::vector<Json> progress = Metrics("far", "progress");
        return !progress.empty() && progress.back()["clock"].get<double>() > chosen + 8;
      },
      120s));
  SetRate("1000mbit");
  Finish();
  EXPECT_THAT(worker_->Err(), testing::HasSubstr("pushes take other times"));
  EXPECT_LT(MegabitsASecond().front(), 40);
  EXPECT_GT(MegabitsASecond().back(), 60);
}

TEST_F(Network, NothingOfItIsLeft) {
  EXPECT_EQ(RunProgram(NetworkScript({"down"})).code, 0);
  const Ended left = RunProgram({"/usr/bin/env", "ip", "netns", "list"});
  EXPECT_EQ(left.out.find("psgd" + std::to_string(getpid())), std::string::npos) << left.out;
}

}  // namespace
}  // namespace psgd
