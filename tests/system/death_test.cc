// Processes that die. No process may outlive its run.
#include <signal.h>

#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

class Death : public RunTest {
 protected:
  // Settings of a run that is long enough to be hit while it trains.
  std::vector<std::string> Long() const {
    return Sets({"train.epochs=100000", "consistency.staleness=2", "cluster.lease=3s",
                 "durability.checkpoint=200 steps"});
  }
  static std::chrono::duration<double> Since(std::chrono::steady_clock::time_point start) {
    return std::chrono::steady_clock::now() - start;
  }
};

TEST_F(Death, TheOthersFinishWithoutAKilledWorker) {
  Process run(
      PsRun("run", Sets({"train.epochs=60", "cluster.lease=3s", "consistency.staleness=2"}) +
                       std::vector<std::string>{"--workers", "3"}));
  ASSERT_TRUE(run.WaitFor("epoch 2/60")) << run.Err();
  const std::vector<pid_t> workers = run.Children("ps-worker");
  ASSERT_EQ(workers.size(), 3u);
  kill(workers[1], SIGKILL);
  // The run waits for the worker until its lease ends. Then the others get its undone batches.
  const std::string server = ServerOf(run);
  EXPECT_TRUE(Eventually([&] {
    const Json status = StatusOf(server);
    return status.is_object() && status["batches_repeated"] != "0";
  }));
  const Ended ended = run.Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("worker-1 was killed by signal 9"));
  EXPECT_THAT(ended.err, HasSubstr("the other workers go on"));
  EXPECT_EQ(Summary("run")["status"], "finished");
  EXPECT_EQ(Summary("run")["epochs"], 60.0);
  EXPECT_GT(Summary("run")["batches_repeated"].get<uint64_t>(), 0u);
  EXPECT_GE(Summary("run")["test_accuracy"].get<double>(), 0.85);
}

TEST_F(Death, AFrozenWorkerOrServerIsSaidToBeWaitedFor) {
  Process run(PsRun("run", Sets({"train.epochs=30", "consistency.staleness=0"})));
  ASSERT_TRUE(run.WaitFor("epoch 2/")) << run.Err();
  const pid_t worker = run.Children("ps-worker").back();
  ASSERT_EQ(kill(worker, SIGSTOP), 0);
  const bool named =
      run.WaitFor("waiting for worker 1 (worker-1), not heard for more than 2 s", 8s);
  ASSERT_EQ(kill(worker, SIGCONT), 0);
  EXPECT_TRUE(named) << run.Err();
  const std::vector<pid_t> servers = run.Children("ps-server");
  ASSERT_EQ(servers.size(), 1u);
  ASSERT_EQ(kill(servers[0], SIGSTOP), 0);
  const bool said = run.WaitFor("waiting for ps-server at 127.0.0.1:");
  ASSERT_EQ(kill(servers[0], SIGCONT), 0);
  EXPECT_TRUE(said) << run.Err();
  const Ended ended = run.Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("ps-server answers again, after"));
}

TEST_F(Death, AllWorkersKilled) {
  Process run(PsRun("run", Long()));
  ASSERT_TRUE(run.WaitFor("epoch 1/")) << run.Err();
  const auto start = std::chrono::steady_clock::now();
  for (pid_t worker : run.Children("ps-worker")) kill(worker, SIGKILL);
  const Ended ended = run.Wait();
  EXPECT_LT(Since(start), 20s);
  EXPECT_EQ(ended.code, 1) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("no worker is left"));
  EXPECT_EQ(Summary("run")["status"], "failed");
}

TEST_F(Death, ServerKilled) {
  Process run(PsRun("run", Long()));
  ASSERT_TRUE(Eventually([&] { return !Metrics("run", "checkpoint").empty(); })) << run.Err();
  const std::vector<pid_t> servers = run.Children("ps-server");
  ASSERT_EQ(servers.size(), 1u);
  const auto start = std::chrono::steady_clock::now();
  kill(servers[0], SIGKILL);
  const Ended ended = run.Wait();
  EXPECT_LT(Since(start), 10s);
  EXPECT_EQ(ended.code, 1) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("ps-server was killed by signal 9"));
  EXPECT_THAT(ended.err, HasSubstr("ps-run --resume " + Path("run")));
  EXPECT_EQ(Summary("run")["status"], "failed");

  const double before = Metrics("run", "checkpoint").back()["epoch"];
  const std::string last = std::to_string(static_cast<int>(before) + 2);
  const Ended resumed =
      RunProgram({"ps-run", "--resume", Path("run"), "--set", "train.epochs=" + last});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(Summary("run")["status"], "finished");
}

TEST_F(Death, StoppedTwiceEndsAtOnce) {
  Process run(PsRun("run", Long()));
  ASSERT_TRUE(run.WaitFor("epoch 1/")) << run.Err();
  const std::string server = ServerOf(run);
  EXPECT_TRUE(Listens(server));
  const auto start = std::chrono::steady_clock::now();
  run.Signal(SIGINT);
  Pause(150ms);
  run.Signal(SIGINT);
  const Ended ended = run.Wait();
  EXPECT_LT(Since(start), 5s);
  EXPECT_EQ(ended.code, 3) << ended.err;
  EXPECT_TRUE(Eventually([&] { return !Listens(server); }));
}

TEST_F(Death, PsRunKilledTakesItsProcessesAlong) {
  std::string server;
  {
    Process run(PsRun("run", Long()));
    ASSERT_TRUE(run.WaitFor("epoch 1/")) << run.Err();
    server = ServerOf(run);
    run.Signal(SIGKILL);
    run.Wait();
  }
  EXPECT_TRUE(Eventually([&] { return ProcessesThatMention(Path("run")).empty(); }, 20s));
  // A process that ends loses its command line before its sockets.
  EXPECT_TRUE(Eventually([&] { return !Listens(server); }));
}

TEST_F(Death, AFrozenServerIsGivenUpAtTheDeadline) {
  Process server({"ps-server", "--config", SmallConfig(), "--port", "0", "--run-dir", Path("run"),
                  "--set", "cluster.lease=1s", "--set", "cluster.deadline=2s", "--set",
                  "cluster.resend=500ms", "--set", "train.epochs=100000"});
  const std::string address = ServerOf(server);
  Process first({"ps-worker", "--cpu", "--server", address});
  Process second({"ps-worker", "--cpu", "--server", address});
  ASSERT_TRUE(server.WaitFor("epoch 1: test accuracy")) << server.Err();
  server.Signal(SIGSTOP);
  // Far below the 20 s that a worker waits for its first contact.
  for (Process* worker : {&first, &second}) {
    const Ended ended = worker->Wait(15s);
    EXPECT_EQ(ended.code, 1) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(address.substr(0, address.find(':'))));
  }
  server.Signal(SIGKILL);
}

class DeathOver : public Death, public testing::WithParamInterface<std::string> {};

// Large pushes and a small queue: the frozen worker very likely stands in the middle of a push.
TEST_P(DeathOver, AFrozenWorkerStopsNobody) {
  Process run(PsRun("run", Sets({"train.epochs=100000", "consistency.staleness=unbounded",
                                 "model.hidden=[1500, 1500]", "compression.push=none",
                                 "cluster.workers=3", "cluster.queue=1MiB", "cluster.lease=50s",
                                 "cluster.segment=100000", "cluster.transport=" + GetParam()})));
  const std::string server = ServerOf(run);
  const auto fastest = [&] {
    return std::stoull(StatusOf(server)["shards"][0]["fastest_clock"].get<std::string>());
  };
  ASSERT_TRUE(Eventually([&] { return fastest() > 10; }, 20s)) << run.Err();
  const std::vector<pid_t> workers = run.Children("ps-worker");
  ASSERT_EQ(workers.size(), 3u);
  ASSERT_EQ(kill(workers[0], SIGSTOP), 0);
  const uint64_t before = fastest();
  EXPECT_TRUE(Eventually([&] { return fastest() > before + 40; }, 30s)) << fastest() - before;
  kill(workers[0], SIGCONT);
  run.Signal(SIGKILL);
}

INSTANTIATE_TEST_SUITE_P(Transports, DeathOver, testing::Values("zmq", "ipc", "grpc", "ucx"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace psgd
