// Servers with a journal that die and go on.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/certificates/certificates.h"
#include "tests/system/run_test.h"
#include "tests/system/run_times.h"

namespace psgd {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

class Recovery : public RunTest {
 protected:
  std::vector<std::string> Journalled(std::vector<std::string> more) const {
    return Sets({"durability.acknowledge=journal", "cluster.resend=200ms", "cluster.lease=20s"}) +
           Sets(std::move(more));
  }
  // Kills the server of a ps-run `times` times, each time after training went on for an epoch or
  // two. Returns the number of kills.
  static int KillServers(Process& run, int times) {
    int killed = 0;
    for (int i = 0; i < times && run.Running(); ++i) {
      const std::vector<pid_t> servers = run.Children("ps-server");
      if (!servers.empty() && kill(servers[0], SIGKILL) == 0) ++killed;
      const auto back = [&] { return Count(run.Err(), "is back") > i; };
      if (!Eventually([&] { return back() || !run.Running(); }, 20s) || !back()) break;
      const int epochs = Count(run.Err(), ": test accuracy");
      Eventually(
          [&] { return Count(run.Err(), ": test accuracy") > epochs + 1 || !run.Running(); });
    }
    return killed;
  }
  static int Count(const std::string& said, const std::string& words) {
    int count = 0;
    for (size_t at = said.find(words); at != std::string::npos; at = said.find(words, at + 1))
      ++count;
    return count;
  }
  // Writes beyond that size of a file fail in the server of a ps-run, as on a full disk.
  static void LimitFiles(Process& run, rlim_t bytes) {
    const std::vector<pid_t> servers = run.Children("ps-server");
    ASSERT_EQ(servers.size(), 1u);
    rlimit limit{};
    ASSERT_EQ(prlimit(servers[0], RLIMIT_FSIZE, nullptr, &limit), 0);
    limit.rlim_cur = std::min(bytes, limit.rlim_max);
    ASSERT_EQ(prlimit(servers[0], RLIMIT_FSIZE, &limit, nullptr), 0);
  }
};

TEST_F(Recovery, TrainingGoesOnWhereTheJournalEnds) {
  const std::vector<std::string> settings =
      Journalled({"train.epochs=40", "consistency.staleness=2", "durability.checkpoint=20 epochs"});
  ASSERT_EQ(RunSmall("calm", settings).code, 0);
  Process run(PsRun("run", settings));
  ASSERT_TRUE(run.WaitFor("epoch 2/40")) << run.Err();
  EXPECT_EQ(KillServers(run, 3), 3);
  const Ended ended = run.Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("ps-server was killed by signal 9"));
  EXPECT_THAT(ended.err, HasSubstr("is back"));
  EXPECT_THAT(ended.err, Not(HasSubstr("worker-0")));
  EXPECT_EQ(Summary("run")["status"], "finished");
  EXPECT_EQ(Summary("run")["epochs"], 40.0);
  // Steps are reported, and stored once a second.
  EXPECT_EQ(Summary("calm")["counts_incomplete"], false);
  EXPECT_EQ(Summary("run")["counts_incomplete"], true);
  EXPECT_LE(Summary("run")["steps"].get<uint64_t>(), Summary("calm")["steps"].get<uint64_t>());
  EXPECT_THAT(ended.out, HasSubstr("at least "));
  EXPECT_GE(Summary("run")["test_accuracy"].get<double>(),
            Summary("calm")["test_accuracy"].get<double>() - 0.003);
  EXPECT_THAT(File("run/server/server.log"), HasSubstr("went on from the journal"));
  ExpectTimesGoOn(Metrics("run", "progress"), Summary("run"));
}

TEST_F(Recovery, AServerThatIsKilledAgainAsItStartsIsStartedOnceMore) {
  Process run(PsRun("run", Journalled({"train.epochs=15", "consistency.staleness=2"})));
  ASSERT_TRUE(run.WaitFor("epoch 2/15")) << run.Err();
  for (int i = 0; i < 3; ++i) {
    const std::vector<pid_t> servers = run.Children("ps-server");
    ASSERT_EQ(servers.size(), 1u) << run.Err();
    kill(servers[0], SIGKILL);
    ASSERT_TRUE(Eventually([&] {
      const std::vector<pid_t> now = run.Children("ps-server");
      return now.size() == 1 && now[0] != servers[0];
    })) << run.Err();
  }
  const Ended ended = run.Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(Summary("run")["epochs"], 15.0);
}

// With staleness 0 a run's bits depend only on its seed, not on its server's deaths.
TEST_F(Recovery, TheWeightsAreThoseOfAnUndisturbedRun) {
  const std::vector<std::string> settings = {"train.epochs=30", "optimizer.sgd.momentum=0.9",
                                             "compression.push=topk"};
  ASSERT_EQ(RunSmall("calm", Journalled(settings)).code, 0);
  Process run(PsRun("run", Journalled(settings)));
  ASSERT_TRUE(run.WaitFor("epoch 2/30")) << run.Err();
  const int killed = KillServers(run, 4);
  EXPECT_GE(killed, 2);
  const Ended ended = run.Wait();
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(Weights("run"), Weights("calm"));
  EXPECT_EQ(Losses("run").back(), Losses("calm").back());
}

TEST_F(Recovery, ImagesReplaceTheJournalAndLeadToTheSameWeights) {
  const std::vector<std::string> settings = {"train.epochs=30", "durability.journal=512KiB"};
  ASSERT_EQ(RunSmall("calm", Sets({"train.epochs=30"})).code, 0);
  Process run(PsRun("run", Journalled(settings)));
  ASSERT_TRUE(run.WaitFor("epoch 8/30")) << run.Err();
  EXPECT_GE(KillServers(run, 2), 1);
  ASSERT_EQ(run.Wait().code, 0) << run.Err();
  EXPECT_EQ(Weights("run"), Weights("calm"));
  // Older images are gone.
  int images = 0;
  for (const auto& found :
       std::filesystem::directory_iterator(Path("run/server/journal/shard-0"))) {
    images += found.is_directory() && found.path().filename().string().rfind("image", 0) == 0;
  }
  EXPECT_LE(images, 3);
  EXPECT_FALSE(std::filesystem::exists(Path("run/server/journal/shard-0/image-000000000001")));
}

// A journal that is replayed makes the cuts of complete checkpoints again.
TEST_F(Recovery, CheckpointsStayCompleteAndTheJournalStaysShort) {
  const std::vector<std::string> settings =
      Journalled({"train.epochs=100000", "durability.journal=64KiB", "durability.keep=3"});
  Process server(std::vector<std::string>{"ps-server", "--config", SmallConfig(), "--port", "0",
                                          "--run-dir", Path("run")} +
                 settings);
  const std::string address = ServerOf(server);
  ASSERT_NE(address, "") << server.Err();
  Process first({"ps-worker", "--cpu", "--server", address});
  Process second({"ps-worker", "--cpu", "--server", address});
  ASSERT_TRUE(server.WaitFor("epoch 2: test accuracy")) << server.Err();
  Ended taken = RunProgram({"ps-ctl", "checkpoint", "--server", address, "--name", "keep-me"});
  ASSERT_EQ(taken.code, 0) << taken.err;
  const auto listed = [&] {
    return RunProgram({"ps-ctl", "checkpoints", Path("run"), "--json"}).out;
  };
  ASSERT_THAT(listed(), HasSubstr("keep-me"));
  server.Signal(SIGKILL);
  server.Wait();
  Process again({"ps-server", "--recover", Path("run")});
  ASSERT_NE(ServerOf(again), "") << again.Err();
  const auto said = [&] { return again.Err().find("test accuracy") != std::string::npos; };
  ASSERT_TRUE(Eventually(said)) << again.Err();
  EXPECT_THAT(listed(), HasSubstr("keep-me"));
  const auto journal = [&] {
    const Json status = StatusOf(address);
    return status.is_object() ? std::stoull(status["shards"][0]["journal_bytes"].get<std::string>())
                              : 0;
  };
  // Images are taken, which they were not while a complete checkpoint counted as under way.
  uint64_t largest = 0;
  EXPECT_TRUE(Eventually([&] {
    const uint64_t now = journal();
    largest = std::max(largest, now);
    return now > 0 && now < largest;
  })) << largest;
  again.Signal(SIGTERM);
  EXPECT_EQ(again.Wait().code, 3) << again.Err();
  first.Wait();
  second.Wait();
}

// Workers and server know each other by keys. A restarted server has the same keys.
TEST_F(Recovery, ASecuredRunGoesOnUnderTheSamePasses) {
  const Certificates certificates;
  for (const char* transport : {"zmq", "grpc"}) {
    const std::string run_dir = absl::StrCat("secured-", transport);
    Process run(PsRun(run_dir, Journalled({"train.epochs=20", "consistency.staleness=2",
                                           absl::StrCat("cluster.transport=", transport)}) +
                                   std::vector<std::string>{"--tls-dir", certificates.dir()}));
    ASSERT_TRUE(run.WaitFor("epoch 2/20")) << run.Err();
    EXPECT_EQ(KillServers(run, 1), 1);
    const Ended ended = run.Wait();
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(Summary(run_dir)["epochs"], 20.0);
    struct stat folder;
    ASSERT_EQ(stat(Path(run_dir + "/server/journal").c_str(), &folder), 0);
    EXPECT_EQ(folder.st_mode & 0077, 0u) << "others may read the passes";
  }
}

class RecoveryByHand : public Recovery, public testing::WithParamInterface<std::string> {};

// The server is restarted by hand, as on a cluster, at the addresses that the workers know.
TEST_P(RecoveryByHand, WorkersFindTheServerAgain) {
  const std::vector<std::string> settings =
      Sets({"durability.acknowledge=fsync", "cluster.transport=" + GetParam(), "train.epochs=15",
            "cluster.resend=200ms"});
  Process server(std::vector<std::string>{"ps-server", "--config", SmallConfig(), "--port", "0",
                                          "--run-dir", Path("run")} +
                 settings);
  const std::string address = ServerOf(server);
  Process first({"ps-worker", "--cpu", "--server", address});
  Process second({"ps-worker", "--cpu", "--server", address});
  ASSERT_TRUE(server.WaitFor("epoch 2: test accuracy")) << server.Err();
  server.Signal(SIGKILL);
  server.Wait();
  Process again({"ps-server", "--recover", Path("run")});
  EXPECT_EQ(ServerOf(again), address) << again.Err();
  EXPECT_EQ(first.Wait().code, 0) << first.Err();
  EXPECT_EQ(second.Wait().code, 0) << second.Err();
  EXPECT_EQ(again.Wait().code, 0) << again.Err();
  EXPECT_EQ(Summary("run")["epochs"], 15.0);
}
INSTANTIATE_TEST_SUITE_P(Transports, RecoveryByHand, testing::Values("zmq", "auto", "grpc", "ucx"));

TEST_F(Recovery, WhatCannotBeRecoveredIsSaid) {
  Ended none = RunProgram({"ps-server", "--recover", Path("nothing")});
  EXPECT_EQ(none.code, 2);
  Process memory(PsRun("memory", Sets({"train.epochs=100000"})));
  ASSERT_TRUE(memory.WaitFor("epoch 2/")) << memory.Err();
  memory.Signal(SIGKILL);
  memory.Wait();
  ASSERT_TRUE(Eventually([&] { return ProcessesThatMention(Path("memory")).empty(); }));
  none = RunProgram({"ps-server", "--recover", Path("memory")});
  EXPECT_NE(none.code, 0);
  EXPECT_THAT(none.err, HasSubstr("kept no journal"));
  EXPECT_THAT(none.err, HasSubstr("--resume"));
  none = RunProgram({"ps-server", "--recover", Path("memory"), "--set", "train.epochs=2"});
  EXPECT_EQ(none.code, 2);
}

TEST_F(Recovery, ADamagedJournalIsNeverTrainedOnSilently) {
  Process server({"ps-server", "--config", SmallConfig(), "--port", "0", "--run-dir", Path("run"),
                  "--set", "durability.acknowledge=journal", "--set", "train.epochs=100000"});
  const std::string address = ServerOf(server);
  Process worker({"ps-worker", "--cpu", "--server", address});
  Process other({"ps-worker", "--cpu", "--server", address});
  ASSERT_TRUE(server.WaitFor("epoch 2: test accuracy")) << server.Err();
  server.Signal(SIGKILL);
  server.Wait();
  for (const auto& found :
       std::filesystem::directory_iterator(Path("run/server/journal/shard-0/log"))) {
    if (found.path().extension() != ".log" || found.file_size() < 1000) continue;
    std::fstream file(found.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(found.file_size() / 2));
    file.write("damage", 6);
  }
  const Ended ended = RunProgram({"ps-server", "--recover", Path("run")});
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.err, HasSubstr("shard 0 cannot go on from its journal"));
}

// Like a full disk, for machines where the test may not mount one: writes beyond a file size fail.
TEST_F(Recovery, WaitsWhileItsFilesMayNotGrow) {
  ASSERT_EQ(RunSmall("calm", Sets({"train.epochs=20"})).code, 0);
  Process run(PsRun("run", Journalled({"train.epochs=20", "durability.journal=1MiB"})));
  ASSERT_TRUE(run.WaitFor("epoch 2/20")) << run.Err();
  LimitFiles(run, 64 << 10);
  EXPECT_TRUE(Eventually(
      [&] { return File("run/server/server.log").find("cannot be written") != std::string::npos; },
      30s))
      << File("run/server/server.log");
  LimitFiles(run, RLIM_INFINITY);
  const Ended ended = run.Wait();
  EXPECT_EQ(ended.code, 0) << ended.err << File("run/server/server.log");
  EXPECT_THAT(ended.err, Not(HasSubstr("was killed")));
  EXPECT_TRUE(Weights("run") == Weights("calm"));
}

TEST_F(Recovery, ARunThatCannotWriteEndsWhenItIsAskedTo) {
  Process run(
      PsRun("run", Sets({"durability.acknowledge=journal", "train.epochs=100000",
                         "cluster.resend=200ms", "cluster.lease=2s", "cluster.deadline=4s"})));
  ASSERT_TRUE(run.WaitFor("epoch 2/")) << run.Err();
  LimitFiles(run, 0);
  EXPECT_TRUE(run.WaitFor("waiting for ")) << run.Err();
  run.Signal(SIGTERM);
  const Ended ended = run.Wait(60s);
  EXPECT_EQ(ended.code, 3) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("stopping waits until this can be written: "));
  EXPECT_THAT(ended.err, HasSubstr("ps-server --recover " + Path("run")));
  Process again({"ps-server", "--recover", Path("run")});
  EXPECT_TRUE(again.WaitFor("ready: ")) << again.Err();
  again.Signal(SIGKILL);
}

}  // namespace
}  // namespace psgd
