// Processes that are stopped for longer than a lease, and then go on.
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

class Zombie : public RunTest {
 protected:
  static constexpr auto kLease = 1000ms;
  std::vector<std::string> Settings(const std::vector<std::string>& more) const {
    return Sets({"cluster.lease=1s", "cluster.resend=200ms", "cluster.deadline=30s"}) + Sets(more);
  }
  std::unique_ptr<Process> Server(const std::string& name,
                                  const std::vector<std::string>& more) const {
    return std::make_unique<Process>(std::vector<std::string>{"ps-server", "--config",
                                                              SmallConfig(), "--port", "0",
                                                              "--run-dir", Path(name)} +
                                     Settings(more));
  }
  static uint64_t Clock(const std::string& server) {
    const Json status = StatusOf(server);
    return status.is_object() ? std::stoull(status["clock"].get<std::string>()) : 0;
  }
  static void ExpectTrains(const std::string& server) {
    const uint64_t clock = Clock(server);
    EXPECT_TRUE(Eventually([&] { return Clock(server) > clock + 50; })) << "training stands still";
  }
  // Ends the run.
  static void ExpectGoesOnWithout(Process& zombie, Process& server, const std::string& address) {
    ExpectTrains(address);
    zombie.Signal(SIGCONT);
    const Ended out = zombie.Wait();
    EXPECT_EQ(out.code, 1) << out.err;
    EXPECT_THAT(out.err,
                AnyOf(HasSubstr("was replaced by incarnation"), HasSubstr("refuses this worker")));
    ExpectTrains(address);
    server.Signal(SIGTERM);
    EXPECT_EQ(server.Wait().code, 3) << server.Err();
  }
};

// A stopped server hears nobody. That is no silence of its workers.
TEST_F(Zombie, AServerThatWasStoppedGoesOnWithItsWorkers) {
  const std::vector<std::string> settings = {"train.epochs=20", "optimizer.sgd.momentum=0.9"};
  ASSERT_EQ(RunSmall("calm", Settings(settings)).code, 0);
  for (const char* acknowledge : {"memory", "journal"}) {
    const std::string name = absl::StrCat("run-", acknowledge);
    std::vector<std::string> own = settings;
    own.push_back(absl::StrCat("durability.acknowledge=", acknowledge));
    const auto server = Server(name, own);
    const std::string address = ServerOf(*server);
    Process one({"ps-worker", "--cpu", "--server", address});
    Process other({"ps-worker", "--cpu", "--server", address});
    ASSERT_TRUE(server->WaitFor("epoch 2: test accuracy")) << server->Err();
    server->Signal(SIGSTOP);
    Pause(2 * kLease);
    server->Signal(SIGCONT);
    EXPECT_EQ(one.Wait().code, 0) << one.Err();
    EXPECT_EQ(other.Wait().code, 0) << other.Err();
    EXPECT_EQ(server->Wait().code, 0) << server->Err();
    EXPECT_THAT(server->Err(), Not(HasSubstr("not heard of")));
    EXPECT_TRUE(Weights(name) == Weights("calm")) << acknowledge;
  }
}

// A stopped worker is replaced. Its later messages are refused and change nothing.
TEST_F(Zombie, AWorkerThatWasStoppedIsOutAndChangesNothing) {
  for (const char* transport : {"zmq", "grpc"}) {
    const std::string name = absl::StrCat("run-", transport);
    const auto server = Server(name, {"train.epochs=100000", "consistency.staleness=2",
                                      absl::StrCat("cluster.transport=", transport)});
    const std::string address = ServerOf(*server);
    Process one({"ps-worker", "--cpu", "--server", address});
    Process zombie({"ps-worker", "--cpu", "--server", address});
    ASSERT_TRUE(server->WaitFor("epoch 1: test accuracy")) << server->Err();
    zombie.Signal(SIGSTOP);
    ASSERT_TRUE(server->WaitFor("not heard of")) << server->Err();
    Process heir({"ps-worker", "--cpu", "--server", address});
    ASSERT_TRUE(Eventually([&] {
      const std::string said = server->Err();
      return said.find("joined", said.find("not heard of")) != std::string::npos;
    }));
    ExpectGoesOnWithout(zombie, *server, address);
    EXPECT_EQ(one.Wait().code, 0) << one.Err();
    EXPECT_EQ(heir.Wait().code, 0) << heir.Err();
    EXPECT_GT(Summary(name)["batches_repeated"].get<uint64_t>(), 0u);
    EXPECT_GE(Summary(name)["test_accuracy"].get<double>(), 0.85);
  }
}

// As systemd starts a worker again that died: the run does not wait for its lease.
TEST_F(Zombie, AProcessOfTheSameNameTakesItsPlaceAtOnce) {
  const auto server =
      Server("run", {"train.epochs=100000", "cluster.lease=10min", "cluster.deadline=20min"});
  const std::string address = ServerOf(*server);
  const std::vector<std::string> named = {"ps-worker", "--cpu",  "--server",
                                          address,     "--name", "second"};
  Process one({"ps-worker", "--cpu", "--server", address});
  Process zombie(named);
  ASSERT_TRUE(server->WaitFor("epoch 1: test accuracy")) << server->Err();
  zombie.Signal(SIGSTOP);
  Process heir(named);
  ASSERT_TRUE(server->WaitFor("takes its place")) << server->Err();
  ExpectGoesOnWithout(zombie, *server, address);
  EXPECT_EQ(one.Wait().code, 0) << one.Err();
  EXPECT_EQ(heir.Wait().code, 0) << heir.Err();
}

}  // namespace
}  // namespace psgd
