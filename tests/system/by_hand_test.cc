// ps-server and ps-worker started by hand, and the bound on staleness with a slow worker.
#include <signal.h>

#include <filesystem>

#include "net/address.h"
#include "net/resolve.h"
#include "tests/folders.h"
#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using namespace std::chrono_literals;

double NumberAfter(const std::string& text, const std::string& words) {
  const size_t at = text.find(words);
  EXPECT_NE(at, text.npos) << text;
  return at == text.npos ? 0 : std::strtod(text.c_str() + at + words.size(), nullptr);
}

class ByHand : public RunTest {
 protected:
  std::vector<std::string> Server(const std::vector<std::string>& assignments) const {
    return std::vector<std::string>{"ps-server", "--config",  SmallConfig(), "--port",
                                    "0",         "--run-dir", Path("run")} +
           Sets(assignments);
  }
  static std::vector<std::string> Worker(const std::string& server,
                                         const std::vector<std::string>& more = {}) {
    return std::vector<std::string>{"ps-worker", "--cpu", "--server", server} + more;
  }

  // Runs two workers, one slower by 20 ms per step. Returns the largest staleness of a pull.
  uint64_t LargestStaleness(const std::string& bound) {
    Process server(
        Server({"train.epochs=1", "cluster.segment=64", "consistency.staleness=" + bound}));
    const std::string address = ServerOf(server);
    Process slow(Worker(address, {"--step-delay", "20ms"}));
    Process fast(Worker(address));
    EXPECT_EQ(server.Wait().code, 0);
    EXPECT_EQ(slow.Wait().code, 0);
    EXPECT_EQ(fast.Wait().code, 0);
    return Summary("run")["staleness"]["max"];
  }
};

TEST_F(ByHand, AServerAndTwoWorkers) {
  Process server(Server({}));
  const std::string address = ServerOf(server);
  ASSERT_FALSE(address.empty()) << server.Err();
  Process first(Worker(address));
  ASSERT_TRUE(first.WaitFor("waiting for workers: 1 of 2 are here"));
  Process second(Worker(address, {"--name", "second"}));
  EXPECT_EQ(first.Wait().code, 0);
  EXPECT_EQ(second.Wait().code, 0);
  EXPECT_EQ(server.Wait().code, 0);
  EXPECT_EQ(Summary("run")["status"], "finished");
  EXPECT_GE(Summary("run")["test_accuracy"].get<double>(), 0.85);
  EXPECT_FALSE(Listens(address));
}

// A machine without IPv6 has nothing to listen at.
TEST_F(ByHand, AtAnIpv6Address) {
  if (!Resolve("::1", 0).ok() || TryToListen({.host = "::1", .port = 0, .name = {}}) != 0) {
    GTEST_SKIP() << "this machine has no IPv6";
  }
  for (const char* transport : {"zmq", "grpc"}) {
    Process server(Server({"train.epochs=1", "cluster.workers=1",
                           std::string("cluster.transport=") + transport}) +
                   std::vector<std::string>{"--bind", "[::1]"});
    const std::string address = ServerOf(server);
    EXPECT_THAT(address, StartsWith("[::1]:")) << server.Err();
    EXPECT_EQ(RunProgram(Worker(address)).code, 0);
    EXPECT_EQ(server.Wait().code, 0) << server.Err();
    EXPECT_EQ(Summary("run")["status"], "finished");
    std::filesystem::remove_all(Path("run"));
  }
}

// examples/toy.c, which fits a line.
TEST_F(ByHand, TwoProgramsInC) {
  Process server({"ps-server", "--config", SourceDir() + "/examples/cluster.yaml", "--port", "0",
                  "--run-dir", Path("run")});
  const std::string address = ServerOf(server);
  ASSERT_FALSE(address.empty()) << server.Err();
  const std::string toy = BuildDir() + "/tests/bin/psgd_toy";
  Process first({toy, address});
  Process second({toy, address});
  for (Process* program : {&first, &second}) {
    const Ended ended = program->Wait();
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.out, "y = 3.0000 x + -1.0000\n");
  }
  EXPECT_EQ(server.Wait().code, 0) << server.Err();
  EXPECT_EQ(Summary("run")["epochs"], 3.0);
}

TEST_F(ByHand, AWorkerJoinsLate) {
  Process server(Server({"train.epochs=100000", "cluster.workers=1"}));
  const std::string address = ServerOf(server);
  Process first(Worker(address));
  ASSERT_TRUE(server.WaitFor("epoch 1: test accuracy")) << server.Err();
  Process late(Worker(address, {"--name", "late"}));
  EXPECT_TRUE(server.WaitFor("worker 1 joined: late"));
  // The late worker takes part: its clock moves.
  EXPECT_TRUE(Eventually([&] {
    const Json status = StatusOf(address);
    return status.is_object() && status["workers"].size() == 2 &&
           status["workers"][1]["live"] == true && status["workers"][1]["samples_per_second"] > 0;
  }));
  EXPECT_EQ(RunProgram({"ps-ctl", "drain", "--server", address}).code, 0);
  EXPECT_EQ(first.Wait().code, 0);
  EXPECT_EQ(late.Wait().code, 0);
  EXPECT_EQ(server.Wait().code, 3);
  EXPECT_EQ(Summary("run")["status"], "interrupted");
}

TEST_F(ByHand, AWorkerThatIsStoppedLeavesAndTheOtherFinishes) {
  Process server(Server({"train.epochs=60"}));
  const std::string address = ServerOf(server);
  Process first(Worker(address));
  Process second(Worker(address));
  ASSERT_TRUE(server.WaitFor("epoch 1: test accuracy")) << server.Err();
  second.Signal(SIGINT);
  EXPECT_EQ(second.Wait().code, 3);
  EXPECT_EQ(first.Wait().code, 0);
  EXPECT_EQ(server.Wait().code, 0);
  EXPECT_EQ(Summary("run")["epochs"], 60.0);
}

TEST_F(ByHand, AWorkerSaysWhatItWouldTake) {
  const Ended told = RunProgram({"ps-worker", "--cpu", "--dry-run", SmallConfig()});
  EXPECT_EQ(told.code, 0) << told.err;
  // (64 + 1) * 32 + (32 + 1) * 10 weights.
  EXPECT_THAT(told.out, testing::HasSubstr("mlp on onednn, batches of 32 samples of 1x8x8"));
  EXPECT_THAT(told.out, testing::ContainsRegex("weights +0.01 MiB"));
  EXPECT_THAT(told.out, testing::ContainsRegex(
                            "  activations +[0-9.]+ MiB\n +gradients +[0-9.]+ MiB  of act"));
  EXPECT_THAT(told.out,
              testing::ContainsRegex("largest batch in the [0-9]+ MiB that are free: about"));
  // Without --cpu it takes a GPU if there is one, and says so.
  const Ended chosen = RunProgram({"ps-worker", "--dry-run", SmallConfig()});
  EXPECT_EQ(chosen.code, 0) << chosen.err;
  EXPECT_THAT(chosen.out, testing::ContainsRegex("mlp on (onednn|cudnn), batches of 32"));
  EXPECT_THAT(chosen.err,
              testing::ContainsRegex("on the processor, for no GPU|on GPU 0; for the processor"));
  const Ended lost = RunProgram({"ps-worker", "--cpu"});
  EXPECT_EQ(lost.code, 2);
  EXPECT_THAT(lost.err, testing::HasSubstr("say --server HOST:PORT"));
}

TEST_F(ByHand, RecomputingTakesLessMemory) {
  const std::string deep = "model.hidden=[1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024]";
  const std::vector<std::string> command = {"ps-worker",   "--cpu",          "--dry-run",
                                            SmallConfig(), "--set",          deep,
                                            "--set",       "data.batch=512", "--set"};
  const Ended keeps = RunProgram(command + std::vector<std::string>{"model.recompute=0"});
  const Ended again = RunProgram(command + std::vector<std::string>{"model.recompute=auto"});
  ASSERT_EQ(keeps.code, 0) << keeps.err;
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(keeps.out, testing::Not(HasSubstr("recomputing")));
  EXPECT_THAT(again.out, HasSubstr("recomputing activations"));
  EXPECT_LT(NumberAfter(again.out, "step"), 0.8 * NumberAfter(keeps.out, "step"));
  EXPECT_GT(NumberAfter(again.out, "free: about"), 1.2 * NumberAfter(keeps.out, "free: about"));
}

// One worker waits for the other at each of 20 clocks. That is neither the wire's nor the shards'
// time.
TEST_F(ByHand, AWaitForASlowWorkerIsToldFromTheRest) {
  Process server(Server({"consistency.staleness=0", "train.max_steps=20"}));
  const std::string address = ServerOf(server);
  Process slow(Worker(address, {"--step-delay", "200ms"}));
  Process fast(Worker(address));
  EXPECT_EQ(slow.Wait().code, 0) << slow.Err();
  EXPECT_EQ(fast.Wait().code, 0) << fast.Err();
  EXPECT_EQ(server.Wait().code, 0) << server.Err();
  const Json seconds = Summary("run")["phase_seconds"];
  ASSERT_EQ(seconds.size(), 6u) << seconds;
  EXPECT_GT(seconds["wait"], 0.5 * 19 * 0.2);
  EXPECT_GT(seconds["wait"], seconds["wire"]);
  EXPECT_GT(seconds["wire"], 0);
  EXPECT_GT(seconds["apply"], 0);
}

TEST_F(ByHand, StalenessStaysWithinItsBound) { EXPECT_LE(LargestStaleness("2"), 2u); }

TEST_F(ByHand, StalenessZeroIsSynchronous) { EXPECT_EQ(LargestStaleness("0"), 0u); }

TEST_F(ByHand, WithoutABoundTheSlowWorkerIsLeftBehind) {
  EXPECT_GT(LargestStaleness("unbounded"), 2u);
}

}  // namespace
}  // namespace psgd
