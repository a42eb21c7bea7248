// Runs of ps-run whose shards have copies. Servers are killed and stopped (SIGSTOP), and ps-run
// too.
#include <signal.h>

#include <fstream>

#include "absl/strings/str_format.h"
#include "tests/system/etcd_run_test.h"
#include "tests/system/run_times.h"

namespace psgd {
namespace {

using testing::HasSubstr;
using testing::Not;

class Copies : public EtcdTest {
 protected:
  // Starts a ps-run with its own etcd.
  void Start(const std::vector<std::string>& settings, int servers = 3,
             const std::vector<std::string>& more = {}) {
    run_ = std::make_unique<Process>(PsRun("run", Copied(servers) + Sets(settings) + more));
    ASSERT_TRUE(run_->WaitFor("epoch 2/")) << run_->Err();
  }
  void TearDown() override {
    run_.reset();
    EtcdTest::TearDown();
  }
  std::vector<pid_t> Servers() const { return run_->Children("ps-server"); }
  // The address of etcd that ps-run prints.
  std::string Etcd() const {
    const std::string text = run_->Err();
    const std::string told = "watch it with: ps-ctl status --etcd ";
    const size_t at = text.find(told) + told.size();
    return text.substr(at, text.find(' ', at) - at);
  }
  bool AreInSync() const {
    const Ended status =
        RunProgram({"ps-ctl", "status", "--etcd", Etcd(), "--run", "small", "--json"});
    return status.code == 0 && IsInSync(Json::parse(status.out));
  }
  // One worker stands still, so that the run cannot end before the test has seen what it waits for:
  // then a few epochs are enough.
  void Hold() const { SignalWorker(SIGSTOP); }
  void Release() const { SignalWorker(SIGCONT); }
  void SignalWorker(int signal) const {
    const std::vector<pid_t> workers = run_->Children("ps-worker");
    ASSERT_EQ(workers.size(), 2u) << run_->Err();
    ASSERT_EQ(kill(workers.back(), signal), 0);
  }
  // Holds the run meanwhile, and waits until it has trained another epoch.
  bool WaitAllInSync() const {
    const bool in_sync =
        EventuallyWhileHeld([&] { Hold(); }, [&] { Release(); }, [&] { return AreInSync(); });
    const auto evaluations = [&] { return run_->Err().rfind(": test accuracy"); };
    const size_t before = evaluations();
    Release();
    return in_sync && Eventually([&] { return evaluations() != before; });
  }

  std::unique_ptr<Process> run_;
};

TEST_F(Copies, AnyServerMayDieAndTheWeightsAreThoseOfAnUndisturbedRun) {
  const std::vector<std::string> settings = {"train.epochs=40", "optimizer.sgd.momentum=0.9",
                                             "compression.push=topk", "durability.journal=64KiB",
                                             "durability.checkpoint=5 epochs"};
  ASSERT_EQ(RunSmall("calm", Sets(settings)).code, 0);
  Start(settings);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(WaitAllInSync()) << run_->Err();
    // At the beginning the first server leads the run.
    ASSERT_FALSE(Servers().empty()) << run_->Err();
    ASSERT_EQ(kill(Servers()[0], SIGKILL), 0);
    Hold();
    ASSERT_TRUE(Eventually([&] { return Servers().size() == 3; })) << run_->Err();
  }
  Release();
  const Ended ended = run_->Wait();
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("leads the run"));
  EXPECT_TRUE(Weights("run") == Weights("calm"));
  EXPECT_EQ(Losses("run").back(), Losses("calm").back());
  EXPECT_EQ(Summary("run")["epochs"], 40.0);
  ExpectTimesGoOn(Metrics("run", "progress"), Summary("run"));
}

TEST_F(Copies, AFrozenServerIsReplacedWhicheverItIs) {
  for (const bool leader : {false, true}) {
    std::filesystem::remove_all(Path("run"));
    Start({"train.epochs=20"}, 2);
    ASSERT_TRUE(WaitAllInSync()) << run_->Err();
    const std::vector<pid_t> servers = Servers();
    ASSERT_EQ(kill(leader ? servers.front() : servers.back(), SIGSTOP), 0);
    const Ended ended = run_->Wait();
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(Summary("run")["epochs"], 20.0);
  }
}

TEST_F(Copies, InMemoryReplaceTheLeaderToo) {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    std::filesystem::remove_all(Path("run"));
    Start({"train.epochs=20", "durability.acknowledge=memory"}, 2);
    ASSERT_TRUE(WaitAllInSync()) << run_->Err();
    ASSERT_EQ(kill(Servers().front(), signal), 0);
    const Ended ended = run_->Wait();
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("leads the run"));
    EXPECT_EQ(Summary("run")["epochs"], 20.0);
  }
}

// Its run directory has the address of the dead one.
TEST_F(Copies, PsCtlFindsTheServerThatTookOver) {
  Start({"train.epochs=100000"});
  ASSERT_TRUE(WaitAllInSync()) << run_->Err();
  ASSERT_EQ(kill(Servers().front(), SIGKILL), 0);
  ASSERT_TRUE(run_->WaitFor("leads the run")) << run_->Err();
  EXPECT_TRUE(Eventually([&] {
    const Ended asked = RunProgram({"ps-ctl", "status", Path("run"), "--json"});
    const Json told = Json::parse(asked.out, nullptr, false);
    return told.is_object() && told.contains("live") && told["live"]["servers"].size() >= 2;
  })) << RunProgram({"ps-ctl", "status", Path("run")}).err;
  for (int i = 0; i < 2; ++i) run_->Signal(SIGINT);
  run_->Wait();
}

TEST_F(Copies, TheirEtcdIsStartedAgainUnlessItDiesAgainAndAgain) {
  Start({"train.epochs=20"}, 2);
  std::vector<pid_t> killed;
  const auto kill_etcd = [&] {
    ASSERT_TRUE(Eventually([&] {
      const std::vector<pid_t> etcd = run_->Children("etcd");
      return etcd.size() == 1 && etcd != killed;
    })) << run_->Err();
    killed = run_->Children("etcd");
    ASSERT_EQ(kill(killed[0], SIGKILL), 0);
  };
  kill_etcd();
  const Ended ended = run_->Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("the run's etcd was killed by signal 9 (Killed); it is started "
                                   "again over its data"));
  EXPECT_EQ(Summary("run")["epochs"], 20.0);
  run_ = std::make_unique<Process>(PsRun("doomed", Copied(2) + Sets({"train.epochs=100000"})));
  ASSERT_TRUE(run_->WaitFor("watch it with")) << run_->Err();
  for (int i = 0; i < 4; ++i) kill_etcd();
  const Ended failed = run_->Wait();
  EXPECT_EQ(failed.code, 1);
  EXPECT_THAT(failed.err, HasSubstr("was started again 3 times within a minute"));
}

// Also with a checkpoint, which is older than the journals.
TEST_F(Copies, ARunWhosePsRunIsKilledGoesOnWhereItsJournalsEnd) {
  Start({"train.epochs=25", "durability.checkpoint=2 epochs"}, 2);
  ASSERT_TRUE(WaitAllInSync()) << run_->Err();
  const Json before = Json::parse(
      RunProgram({"ps-ctl", "status", "--etcd", Etcd(), "--run", "small", "--json"}).out);
  run_->Signal(SIGKILL);
  run_->Wait();
  EXPECT_TRUE(Eventually([&] { return ProcessesThatMention(Path("run")).empty(); }))
      << testing::PrintToString(ProcessesThatMention(Path("run")));
  const Ended alone = RunProgram({"ps-server", "--recover", Path("run")});
  EXPECT_NE(alone.code, 0);
  EXPECT_THAT(alone.err, HasSubstr("the run goes on with:  ps-run --resume " + Path("run")));
  const Ended verified = RunProgram({"ps-ctl", "verify", Path("run"), "--json"});
  EXPECT_EQ(verified.code, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("the run goes on with:  ps-run --resume " + Path("run")));
  // Nothing goes on without the record; put back, all goes on.
  std::filesystem::rename(Path("run/server/etcd"), Path("aside"));
  EXPECT_EQ(RunProgram({"ps-ctl", "verify", Path("run")}).code, 1);
  std::filesystem::rename(Path("aside"), Path("run/server/etcd"));
  run_ = std::make_unique<Process>(std::vector<std::string>{"ps-run", "--resume", Path("run")});
  ASSERT_TRUE(run_->WaitFor("the run goes on where its journals end")) << run_->Err();
  ASSERT_TRUE(run_->WaitFor("test accuracy")) << run_->Err();
  EXPECT_THAT(run_->Err(), Not(HasSubstr(absl::StrFormat(
                               "epoch %d/", static_cast<int>(before["epoch"].get<double>()) - 1))));
  // A server with a damaged journal is replaced.
  ASSERT_TRUE(WaitAllInSync()) << run_->Err();
  run_->Signal(SIGKILL);
  run_->Wait();
  ASSERT_TRUE(Eventually([&] { return ProcessesThatMention(Path("run")).empty(); }));
  for (const auto& file :
       std::filesystem::recursive_directory_iterator(Path("run/server-2/server/journal"))) {
    if (file.path().extension() != ".log" || file.file_size() < 1000) continue;
    std::fstream log(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    log.seekp(static_cast<std::streamoff>(file.file_size() / 2)) << "damaged";
  }
  run_ = std::make_unique<Process>(std::vector<std::string>{"ps-run", "--resume", Path("run")});
  ASSERT_TRUE(run_->WaitFor("a new server takes its place")) << run_->Err();
  EXPECT_TRUE(std::filesystem::exists(Path("run/server-2.before/server/journal")));
  const Ended ended = run_->Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  const Json summary = Summary("run");
  EXPECT_EQ(summary["epochs"], 25.0);
  EXPECT_EQ(summary["batches_lost"], 0);
  const Json journal = Json::parse(verified.out)["journal"];
  ASSERT_EQ(journal.size(), 4u) << verified.out;  // two shards on each of two servers
  for (size_t shard = 0; shard < 2; ++shard) {
    EXPECT_EQ(journal[2 + shard]["folder"], "server-2");
    EXPECT_EQ(journal[2 + shard]["state"], "sound");
    EXPECT_EQ(journal[shard]["state"], "sound");
    EXPECT_THAT(File("run/server/server.log"),
                HasSubstr(absl::StrCat("shard ", shard, " went on from the journal, after entry ",
                                       journal[shard]["last_entry"].get<uint64_t>(), "\n")));
  }
  EXPECT_FALSE(std::filesystem::exists(Path("run/server/etcd")));
}

// The journal of the server that died stays as it was, and nothing goes on from it.
TEST_F(Copies, VerifyLooksWhereARunGoesOnThatWasTakenOver) {
  Start({"train.epochs=100000"}, 2);
  ASSERT_TRUE(WaitAllInSync()) << run_->Err();
  ASSERT_EQ(kill(Servers().front(), SIGKILL), 0);
  ASSERT_TRUE(run_->WaitFor("leads the run")) << run_->Err();
  ASSERT_TRUE(Eventually([&] { return Servers().size() == 2; })) << run_->Err();
  ASSERT_TRUE(WaitAllInSync()) << run_->Err();
  run_->Signal(SIGKILL);
  run_->Wait();
  ASSERT_TRUE(Eventually([&] { return ProcessesThatMention(Path("run")).empty(); }));
  const auto logs_of = [&](const std::string& journal) {
    std::vector<std::filesystem::path> logs;
    for (const auto& file : std::filesystem::recursive_directory_iterator(Path(journal))) {
      if (file.path().extension() == ".log" && file.file_size() >= 1000)
        logs.push_back(file.path());
    }
    return logs;
  };
  const auto flip_bit = [](const std::filesystem::path& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto at = static_cast<std::streamoff>(std::filesystem::file_size(path) / 2);
    file.seekg(at);
    const char byte = static_cast<char>(file.get());
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 0x10));
  };
  for (const auto& log : logs_of("run/server/journal")) flip_bit(log);
  const Ended sound = RunProgram({"ps-ctl", "verify", Path("run")});
  EXPECT_EQ(sound.code, 0) << sound.out << sound.err;
  EXPECT_THAT(sound.out, HasSubstr("server-2 took over from the server of " + Path("run")));
  for (const char* server : {"server-2", "server-3"})
    EXPECT_THAT(sound.out, HasSubstr(absl::StrCat(server, ": shard 0")));
  const auto logs = logs_of("run/server-2/server/journal");
  ASSERT_FALSE(logs.empty());
  flip_bit(logs.front());
  const Ended damaged = RunProgram({"ps-ctl", "verify", Path("run")});
  EXPECT_EQ(damaged.code, 1) << damaged.out;
  EXPECT_THAT(damaged.out, HasSubstr(logs.front().filename().string()));
  EXPECT_THAT(damaged.err, HasSubstr("the journal of " + Path("run/server-2") + " is damaged"));
  EXPECT_THAT(damaged.err, Not(HasSubstr("server-3")));
}

TEST_F(Copies, OfASecuredRunShowCertificates) {
  const Certificates certificates;
  Start({"train.epochs=20"}, 2, {"--tls-dir", certificates.dir()});
  Hold();
  const Ended stranger = RunProgram({"ps-server", "--join", "small", "--etcd", Etcd(), "--run-dir",
                                     Path("stranger"), "--connect-deadline", "1s"});
  EXPECT_NE(stranger.code, 0);
  EXPECT_THAT(stranger.err, HasSubstr("--tls-dir"));
  Release();
  ASSERT_EQ(Servers().size(), 2u) << run_->Err();
  ASSERT_EQ(kill(Servers()[0], SIGKILL), 0);
  const Ended ended = run_->Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(Summary("run")["epochs"], 20.0);
}

TEST_F(Copies, WhatEarlierVersionsCalledThemIsSaid) {
  Ended ended = RunSmall("run", Sets({"durability.acknowledge=replicated"}));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("is cluster.copies by now"));
  ended = RunSmall("run", Sets({"cluster.copies=2"}));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("set cluster.servers to 2 or more"));
  ended = RunProgram({"ps-server", "--follow", "127.0.0.1:7070"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("--follow is --join by now"));
}

}  // namespace
}  // namespace psgd
