// A worker that is asked to stop while its run goes on: its residual is pushed, or reported as
// lost.
#include <signal.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

class Drain : public RunTest {
 protected:
  std::vector<std::string> Server(const std::vector<std::string>& assignments) const {
    return std::vector<std::string>{"ps-server", "--config",  SmallConfig(), "--port",
                                    "0",         "--run-dir", Path("run")} +
           Sets({"compression.push.topk.density=0.05", "compression.dense_below=0B"}) +
           Sets(assignments);
  }
  static std::vector<std::string> Worker(const std::string& server,
                                         const std::vector<std::string>& more = {}) {
    return std::vector<std::string>{"ps-worker", "--cpu", "--server", server} + more;
  }
  // The texts of all events.
  std::string News() const {
    std::string all;
    for (const Json& event : Metrics("run", "event"))
      all += event["text"].get<std::string>() + "\n";
    return all;
  }
};

class DrainAt : public Drain, public testing::WithParamInterface<const char*> {};

TEST_P(DrainAt, AWorkerThatIsAskedToStopPushesItsResidualAndTheOtherFinishes) {
  Process server(Server({"train.epochs=30", std::string("consistency.staleness=") + GetParam()}));
  const std::string address = ServerOf(server);
  Process first(Worker(address));
  ASSERT_TRUE(server.WaitFor("worker 0 joined"));
  Process second(Worker(address, {"--name", "second"}));
  ASSERT_TRUE(server.WaitFor("epoch 1: test accuracy")) << server.Err();
  // Both workers have reported their residuals, and the total is the norm of both together.
  EXPECT_TRUE(Eventually([&] {
    const Json status = StatusOf(address);
    if (!status.is_object() || status["workers"].size() != 2) return false;
    const double a = status["workers"][0].value("residual_norm", 0.0);
    const double b = status["workers"][1].value("residual_norm", 0.0);
    return a > 0 && b > 0 &&
           std::abs(status["total"].value("residual_norm", 0.0) - std::hypot(a, b)) <
               1e-6 * (a + b);
  })) << StatusOf(address).dump(2);
  second.Signal(SIGTERM);
  const Ended left = second.Wait();
  EXPECT_EQ(left.code, 3) << left.err;
  EXPECT_THAT(left.err, HasSubstr("pushed its residual, of norm "));
  EXPECT_EQ(first.Wait().code, 0);
  EXPECT_EQ(server.Wait().code, 0) << server.Err();
  EXPECT_THAT(News(), HasSubstr("worker 1 (second) is out: left: asked to stop after step "));
  EXPECT_THAT(News(), Not(HasSubstr("is lost")));
  const Json summary = Summary("run");
  EXPECT_EQ(summary["epochs"], 30.0);
  EXPECT_EQ(summary["residual_norm_lost"], 0.0);
  EXPECT_TRUE(summary["rejected"].empty()) << summary.dump(2);
  EXPECT_GE(summary["test_accuracy"].get<double>(), 0.85);
  EXPECT_GT(Metrics("run", "progress").back()["residual_norm"].get<double>(), 0);
}

INSTANTIATE_TEST_SUITE_P(AtEveryStaleness, DrainAt, testing::Values("0", "2", "unbounded"));

TEST_F(Drain, WhatIsNotPushedWithinTheDeadlineIsSaidToBeLost) {
  Process server(Server({"train.epochs=30", "consistency.staleness=2"}));
  const std::string address = ServerOf(server);
  Process first(Worker(address));
  ASSERT_TRUE(server.WaitFor("worker 0 joined"));
  Process second(Worker(address, {"--drain-deadline", "0s"}));
  ASSERT_TRUE(server.WaitFor("epoch 1: test accuracy")) << server.Err();
  second.Signal(SIGTERM);
  const Ended left = second.Wait();
  EXPECT_EQ(left.code, 3) << left.err;
  EXPECT_THAT(left.err, HasSubstr("leaves without having pushed its residual, of norm "));
  EXPECT_EQ(first.Wait().code, 0);
  EXPECT_EQ(server.Wait().code, 0) << server.Err();
  EXPECT_THAT(News(), HasSubstr("left: asked to stop, and --drain-deadline has passed"));
  EXPECT_THAT(News(), HasSubstr("is lost with worker 1"));
  EXPECT_GT(Summary("run")["residual_norm_lost"].get<double>(), 0);
}

// A server that hangs does not keep a worker longer than the deadline.
TEST_F(Drain, TheDeadlineHoldsWhenTheServerDoesNotAnswer) {
  Process server(Server({"train.epochs=100000", "consistency.staleness=2"}));
  const std::string address = ServerOf(server);
  Process first(Worker(address));
  Process second(Worker(address, {"--drain-deadline", "1s"}));
  ASSERT_TRUE(server.WaitFor("epoch 1: test accuracy")) << server.Err();
  server.Signal(SIGSTOP);
  second.Signal(SIGTERM);
  // Far below cluster.deadline, and below the limit of one call.
  const Ended left = second.Wait(15s);
  EXPECT_EQ(left.code, 3) << left.err;
  EXPECT_THAT(left.err, HasSubstr("residual, of norm "));
  server.Signal(SIGKILL);
}

TEST_F(Drain, AKilledWorkersResidualIsLost) {
  Process server(Server({"train.epochs=30", "consistency.staleness=2", "cluster.lease=3s"}));
  const std::string address = ServerOf(server);
  Process first(Worker(address));
  ASSERT_TRUE(server.WaitFor("worker 0 joined"));
  Process second(Worker(address));
  ASSERT_TRUE(server.WaitFor("epoch 1: test accuracy")) << server.Err();
  ASSERT_TRUE(Eventually([&] {
    const Json status = StatusOf(address);
    return status.is_object() && status["workers"].size() == 2 &&
           status["workers"][1].value("residual_norm", 0.0) > 0;
  }));
  second.Signal(SIGKILL);
  EXPECT_EQ(first.Wait().code, 0);
  EXPECT_EQ(server.Wait().code, 0) << server.Err();
  EXPECT_THAT(News(), HasSubstr("is lost with worker 1"));
  EXPECT_GT(Summary("run")["residual_norm_lost"].get<double>(), 0);
}

// No worker is left to push or finish a segment: the shards make the last checkpoint by themselves.
TEST_P(DrainAt, WhatKilledWorkersPushedIsInTheLastCheckpoint) {
  Process server(Server({"train.epochs=100000", "cluster.lease=1s",
                         "durability.checkpoint=100000 epochs", "durability.acknowledge=journal",
                         std::string("consistency.staleness=") + GetParam()}));
  const std::string address = ServerOf(server);
  Process first(Worker(address)), second(Worker(address));
  ASSERT_TRUE(server.WaitFor("epoch 2: test accuracy")) << server.Err();
  for (Process* worker : {&first, &second}) worker->Signal(SIGKILL);
  ASSERT_TRUE(server.WaitFor("no worker is left; the run waits"));
  EXPECT_EQ(
      RunProgram({"ps-ctl", "export", "--server", address, "--out", Path("killed.safetensors")})
          .code,
      0);
  EXPECT_EQ(RunProgram({"ps-ctl", "drain", "--server", address}).code, 0);
  EXPECT_EQ(server.Wait().code, 3) << server.Err();
  EXPECT_THAT(News(), HasSubstr("checkpoint 1 is complete"));
  EXPECT_EQ(RunProgram({"ps-ctl", "export", "--run-dir", Path("run"), "--checkpoint", "1", "--out",
                        Path("kept.safetensors")})
                .code,
            0);
  EXPECT_EQ(File("kept.safetensors"), File("killed.safetensors"));
  const double trained = Summary("run")["epochs"];
  const Ended resumed =
      RunProgram({"ps-run", "--resume", Path("run"), "--workers", "1", "--quiet", "--set",
                  absl::StrCat("train.epochs=", static_cast<int>(trained) + 2)});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_GT(Summary("run")["epochs"], trained);
}

// The run's last checkpoint has the residuals.
TEST_F(Drain, AWholeRunThatDrainsPushesNoResidual) {
  Process server(Server({"train.epochs=100000"}));
  const std::string address = ServerOf(server);
  Process first(Worker(address));
  Process second(Worker(address));
  ASSERT_TRUE(server.WaitFor("epoch 1: test accuracy")) << server.Err();
  EXPECT_EQ(RunProgram({"ps-ctl", "drain", "--server", address}).code, 0);
  for (Process* worker : {&first, &second}) {
    // A worker that is asked to stop while the run ends stays for the checkpoint.
    worker->Signal(SIGTERM);
    EXPECT_THAT(worker->Wait().err, Not(HasSubstr("pushed its residual")));
  }
  EXPECT_EQ(server.Wait().code, 3);
  EXPECT_THAT(News(), Not(HasSubstr("is lost")));
  EXPECT_EQ(Summary("run")["residual_norm_lost"], 0.0);
}

}  // namespace
}  // namespace psgd
