// Server and worker on two hosts of a network of the test's own, with links that are slow and break.
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/system/run_test.h"

namespace psgd {
namespace {

using namespace std::chrono_literals;

constexpr char kScript[] = PSGD_SOURCE_DIR "/scripts/netns.sh";

class Network : public RunTest {
 protected:
  void SetUp() override {
    const Ended up = RunProgram(Script({"up", "2", "20mbit"}));
    if (up.code != 0) GTEST_SKIP() << "this machine lets no networks be made: " << up.err;
    up_ = true;
  }
  void TearDown() override {
    if (up_) {
      EXPECT_EQ(RunProgram(Script({"down"})).code, 0);
    }
    RunTest::TearDown();
  }

  // A network of its own: tests run beside each other.
  static std::vector<std::string> Script(const std::vector<std::string>& arguments) {
    return std::vector<std::string>{"/usr/bin/env",
                                    "PSGD_NETNS=psgd" + std::to_string(getpid()), kScript} +
           arguments;
  }
  static std::vector<std::string> On(int host, const std::string& program,
                                     const std::vector<std::string>& arguments) {
    return Script({"run", std::to_string(host), ProgramPath(program)}) + arguments;
  }

  std::vector<std::string> Alone() const {
    return Sets({"cluster.workers=1", "consistency.staleness=0", "train.epochs=2",
                 "cluster.resend=300ms"});
  }
  // The weights of a run on this host, for comparison.
  std::string Near() const {
    EXPECT_EQ(RunSmall("near", Alone()).code, 0);
    return Weights("near");
  }

 private:
  bool up_ = false;
};

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
    const Ended link = RunProgram(Script({"run", "2", "ip", "link", "set", "eth0", state}));
    ASSERT_EQ(link.code, 0) << link.err;
    std::this_thread::sleep_for(700ms);
  }
  EXPECT_EQ(worker.Wait().code, 0) << worker.Err();
  EXPECT_EQ(server.Wait().code, 0) << server.Err();
  EXPECT_EQ(Summary("far")["status"], "finished");
  EXPECT_TRUE(Weights("far") == Near());
}

TEST_F(Network, NothingOfItIsLeft) {
  EXPECT_EQ(RunProgram(Script({"down"})).code, 0);
  const Ended left = RunProgram({"/usr/bin/env", "ip", "netns", "list"});
  EXPECT_EQ(left.out.find("psgd" + std::to_string(getpid())), std::string::npos) << left.out;
}

}  // namespace
}  // namespace psgd
