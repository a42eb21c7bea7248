// A server dies at each failpoint. The run that goes on has the weights of a run whose server never
// died.
#include "server/durability/failpoint.h"

#include <signal.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::HasSubstr;

class Failpoints : public RunTest {
 protected:
  std::vector<std::string> Settings() const {
    return Sets({"train.epochs=40", "durability.acknowledge=journal", "durability.journal=64KiB",
                 "durability.checkpoint=4 epochs", "cluster.resend=200ms", "cluster.lease=20s",
                 "optimizer.sgd.momentum=0.9", "compression.push=topk"});
  }
  // Runs by hand. The server dies at the failpoints, one in each life, and then lives.
  void Run(const std::string& name, const std::vector<std::string>& failpoints) {
    SCOPED_TRACE(name);
    std::unique_ptr<Process> server = std::make_unique<Process>(
        std::vector<std::string>{"ps-server", "--config", SmallConfig(), "--port", "0", "--run-dir",
                                 Path(name), "--failpoint", failpoints.front()} +
        Settings());
    const std::string address = ServerOf(*server);
    Process one({"ps-worker", "--cpu", "--server", address});
    Process other({"ps-worker", "--cpu", "--server", address});
    EXPECT_EQ(server->Wait().code, -SIGKILL) << failpoints.front() << " was not reached";
    for (size_t life = 1; life < failpoints.size(); ++life) {
      server = std::make_unique<Process>(std::vector<std::string>{
          "ps-server", "--recover", Path(name), "--failpoint", failpoints[life]});
      EXPECT_EQ(server->Wait().code, -SIGKILL) << failpoints[life] << " was not reached";
    }
    server =
        std::make_unique<Process>(std::vector<std::string>{"ps-server", "--recover", Path(name)});
    EXPECT_EQ(one.Wait().code, 0) << one.Err();
    EXPECT_EQ(other.Wait().code, 0) << other.Err();
    const Ended ended = server->Wait();
    EXPECT_EQ(ended.code, 0) << ended.err;
  }
};

TEST_F(Failpoints, TheWeightsAreThoseOfARunWithoutACrash) {
  ASSERT_EQ(RunSmall("calm", Settings()).code, 0);
  // One life for each failpoint.
  const std::vector<std::vector<std::string>> runs = {
      {"journal-writing=100", "answers-sent=100", "image-arrays=2", "record-written=3",
       "checkpoint-sealing", "journal-written=60", "image-recorded=2"},
      {"image-begun=3", "record-writing=4", "checkpoint-part", "journal-written=90", "replaying=20",
       "shard-recovered", "checkpoint-sealed"},
  };
  std::set<std::string> reached;
  for (const std::vector<std::string>& run : runs) {
    const std::string name = absl::StrCat("run-", reached.size());
    Run(name, run);
    EXPECT_TRUE(Weights(name) == Weights("calm")) << name;
    for (const std::string& point : run) reached.insert(point.substr(0, point.find('=')));
  }
  for (const auto& [point, name] : kFailpointNames) {
    EXPECT_TRUE(reached.contains(name)) << name;
  }
}

TEST_F(Failpoints, ANameThatIsNoneIsAnError) {
  const Ended ended = RunProgram(
      {"ps-server", "--config", SmallConfig(), "--port", "0", "--failpoint", "journal-writen"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("did you mean \"journal-written\"?"));
}

}  // namespace
}  // namespace psgd
