// Servers that follow another and take over.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "tests/certificates/certificates.h"
#include "tests/system/run_test.h"
#include "tests/system/run_times.h"

namespace psgd {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

class Followers : public RunTest {
 protected:
  static constexpr char kFollows[] = "follows: acknowledgements";
  static std::vector<std::string> Replicated(std::vector<std::string> more) {
    return Sets(
               {"durability.acknowledge=replicated", "cluster.resend=200ms", "cluster.lease=20s"}) +
           Sets(std::move(more));
  }
  static int Times(const std::string& text, const std::string& what) {
    int times = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
      ++times;
    return times;
  }
  // The address of the server of a ps-run that leads, as it was last told.
  static std::string LeaderOf(Process& run) {
    constexpr char kTold[] = "the follower at ";
    const std::string text = run.Err();
    const size_t at = text.rfind(kTold);
    if (at == std::string::npos) return ServerOf(run);
    const size_t begin = at + sizeof kTold - 1;
    return text.substr(begin, text.find(' ', begin) - begin);
  }
  static Json FollowersOf(const std::string& leader) {
    const Json status = StatusOf(leader);
    return status.is_object() ? status.value("followers", Json::array()) : Json::array();
  }
  // By one that would lead if that server died now, of that number or a higher one.
  static bool IsFollowed(const std::string& leader, int by = 2) {
    const Json followers = FollowersOf(leader);
    return std::any_of(followers.begin(), followers.end(), [&](const Json& follower) {
      return follower["replica"] >= by && follower["connected"] == true &&
             follower["in_chain"] == true;
    });
  }
  bool SecondIsFollowing(int times_before) const {
    return Eventually([&] { return Times(first_->Err(), kFollows) > times_before; });
  }
  // The first leads until another takes over, and a later one has a higher number.
  void KillOldest(Process& run, const std::string& run_dir) const {
    pid_t oldest = -1;
    std::string oldest_dir;
    for (const pid_t server : run.Children("ps-server")) {
      const std::string dir = FolderOf(server, run_dir);
      if (oldest == -1 || dir < oldest_dir) std::tie(oldest, oldest_dir) = std::pair(server, dir);
    }
    ASSERT_NE(oldest, -1);
    ASSERT_EQ(kill(oldest, SIGKILL), 0);
  }
  // Kills the leading server of a ps-run so often, each time once it is followed.
  void KillLeaders(Process& run, const std::string& run_dir, int times) const {
    for (int i = 1; i <= times; ++i) {
      const std::string leader = LeaderOf(run);
      ASSERT_TRUE(Eventually([&] { return IsFollowed(leader); })) << run.Err();
      KillOldest(run, run_dir);
      ASSERT_TRUE(Eventually([&] { return Times(run.Err(), "took over after") == i; }))
          << run.Err();
    }
  }
  // "/follower-1" of one that began as such.
  std::string FolderOf(pid_t server, const std::string& run_dir) const {
    std::ifstream file(absl::StrCat("/proc/", server, "/cmdline"));
    std::string line(std::istreambuf_iterator<char>(file), {});
    const size_t at = line.find(Path(run_dir) + "/follower-");
    return at == std::string::npos ? "" : line.substr(at, line.find('\0', at) - at);
  }

  // Their contents by their paths.
  std::map<std::string, std::string> FilesIn(const std::string& run_dir) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(Path(run_dir))) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path());
      files[entry.path().string()].assign(std::istreambuf_iterator<char>(file), {});
    }
    return files;
  }

  std::vector<std::string> FirstServer(const std::vector<std::string>& more) const {
    return std::vector<std::string>{"ps-server", "--config",  SmallConfig(), "--port",
                                    "0",         "--run-dir", Path("first")} +
           Replicated(more);
  }
  std::vector<std::string> Following(const std::string& address, const std::string& run_dir) const {
    return {"ps-server", "--follow", address, "--port", "0", "--run-dir", Path(run_dir)};
  }
  // A run by hand, as on a cluster: a server, one that follows it, or two, and two workers in
  // training.
  void StartPair(const std::vector<std::string>& settings) { Start(settings, 1); }
  void Start(std::vector<std::string> settings, int followers) {
    settings.push_back(absl::StrCat("durability.followers=", followers));
    first_ = std::make_unique<Process>(FirstServer(settings));
    address_ = ServerOf(*first_);
    second_ = std::make_unique<Process>(Following(address_, "second"));
    if (followers == 2) {
      ASSERT_TRUE(Eventually([&] { return FollowersOf(address_).size() == 1; })) << second_->Err();
      third_ = std::make_unique<Process>(Following(address_, "third"));
    }
    for (auto& worker : workers_) {
      worker = std::make_unique<Process>(
          std::vector<std::string>{"ps-worker", "--cpu", "--server", address_});
    }
    ASSERT_TRUE(first_->WaitFor("epoch 2: test accuracy")) << first_->Err() << second_->Err();
  }
  void ExpectWorkersFinish() {
    for (auto& worker : workers_) EXPECT_EQ(worker->Wait().code, 0) << worker->Err();
  }

  std::unique_ptr<Process> first_, second_, third_, workers_[2];
  std::string address_;  // of the first
};

TEST_F(Followers, TakeOverAndTheWeightsAreThoseOfAnUndisturbedRun) {
  const std::vector<std::string> settings = {"train.epochs=150", "optimizer.sgd.momentum=0.9",
                                             "compression.push=topk"};
  ASSERT_EQ(RunSmall("calm", Sets(settings)).code, 0);
  Process run(PsRun("run", Replicated(settings)));
  ASSERT_TRUE(run.WaitFor("epoch 2/150")) << run.Err();
  KillLeaders(run, "run", 2);
  const Ended ended = run.Wait();
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, Not(HasSubstr("started again where its journal ends")));
  EXPECT_EQ(Weights("run"), Weights("calm"));
  EXPECT_EQ(Losses("run").back(), Losses("calm").back());
  EXPECT_EQ(Summary("run")["status"], "finished");
  EXPECT_EQ(Summary("run")["epochs"], 150.0);
  ExpectTimesGoOn(Metrics("run", "progress"), Summary("run"));
}

// Images of the followers' own journals, and checkpoints that are under way when the leader dies.
TEST_F(Followers, TakeOverInTheMidstOfCheckpointsAndImages) {
  Process run(
      PsRun("run", Replicated({"train.epochs=200", "consistency.staleness=2",
                               "durability.journal=64KiB", "durability.checkpoint=1 epoch"})));
  ASSERT_TRUE(run.WaitFor("epoch 2/200")) << run.Err();
  KillLeaders(run, "run", 2);
  const Ended ended = run.Wait();
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(Summary("run")["epochs"], 200.0);
  const Ended verified = RunProgram({"ps-ctl", "verify", Path("run")});
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
}

TEST_F(Followers, ThatDieAreReplaced) {
  Process run(PsRun("run", Replicated({"train.epochs=100", "consistency.staleness=2"})));
  ASSERT_TRUE(run.WaitFor("epoch 2/100")) << run.Err();
  ASSERT_EQ(kill(run.Children("ps-server").back(), SIGKILL), 0);
  ASSERT_TRUE(run.WaitFor("another takes its place")) << run.Err();
  ASSERT_TRUE(Eventually([&] { return IsFollowed(ServerOf(run), /*by=*/3); })) << run.Err();
  KillLeaders(run, "run", 1);
  const Ended ended = run.Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(Summary("run")["epochs"], 100.0);
}

class FollowersOver : public Followers, public testing::WithParamInterface<std::string> {};

// A server that hangs for a while finds that another leads, and that nothing it says counts any
// more.
TEST_P(FollowersOver, AZombieIsFenced) {
  StartPair({"train.epochs=120", "cluster.transport=" + GetParam()});
  first_->Signal(SIGSTOP);
  ASSERT_TRUE(second_->WaitFor("took over")) << second_->Err();
  Pause(300ms);
  first_->Signal(SIGCONT);
  const Ended zombie = first_->Wait(20s);
  EXPECT_NE(zombie.code, 0);
  EXPECT_THAT(zombie.err, HasSubstr("leads this run by now"));
  EXPECT_THAT(zombie.err, HasSubstr("--follow"));
  ExpectWorkersFinish();
  EXPECT_EQ(second_->Wait().code, 0) << second_->Err();
  EXPECT_EQ(Summary("second")["epochs"], 120.0);
  EXPECT_EQ(Summary("second")["status"], "finished");
}
INSTANTIATE_TEST_SUITE_P(Transports, FollowersOver, testing::Values("zmq", "ipc", "grpc"));

// Neither hears the other lead before it does so itself.
TEST_F(Followers, TheLastOfTheChainIsRecoveredWhenAllDied) {
  StartPair({"train.epochs=120"});
  first_->Signal(SIGKILL);
  second_->Signal(SIGKILL);
  first_->Wait();
  second_->Wait();
  Process second({"ps-server", "--recover", Path("second")});
  EXPECT_NE(ServerOf(second), "") << second.Err();
  // The other was before it in the chain: it may know less.
  const Ended first = RunProgram({"ps-server", "--recover", Path("first")});
  EXPECT_NE(first.code, 0);
  EXPECT_THAT(first.err, HasSubstr("leads this run by now")) << second.Err() << second.Out();
  ExpectWorkersFinish();
  EXPECT_EQ(second.Wait().code, 0) << second.Err();
  EXPECT_EQ(Summary("second")["epochs"], 120.0);
}

TEST_F(Followers, TrainingWaitsForThemAndGoesOnWithoutOneThatIsDropped) {
  first_ = std::make_unique<Process>(FirstServer({"train.epochs=60"}));
  address_ = ServerOf(*first_);
  for (auto& worker : workers_) {
    worker = std::make_unique<Process>(
        std::vector<std::string>{"ps-worker", "--cpu", "--server", address_});
  }
  ASSERT_TRUE(workers_[0]->WaitFor("waiting for 1 more followers")) << workers_[0]->Err();
  second_ = std::make_unique<Process>(Following(address_, "second"));
  ASSERT_TRUE(first_->WaitFor("epoch 2: test accuracy")) << first_->Err();
  second_->Signal(SIGKILL);
  second_->Wait();
  ASSERT_TRUE(Eventually([&] {
    const Ended status = RunProgram({"ps-ctl", "status", "--server", address_});
    return status.out.find("gone") != std::string::npos &&
           status.out.find("waits, since") != std::string::npos;
  }));
  const Ended unknown = RunProgram({"ps-ctl", "drop-follower", "7", "--server", address_});
  EXPECT_NE(unknown.code, 0);
  EXPECT_THAT(unknown.err, HasSubstr("is not one of this run's followers"));
  const Ended dropped = RunProgram({"ps-ctl", "drop-follower", "2", "--server", address_});
  EXPECT_EQ(dropped.code, 0) << dropped.err;
  EXPECT_THAT(dropped.out, HasSubstr("the run's servers are now 1 at " + address_));
  ExpectWorkersFinish();
  EXPECT_EQ(first_->Wait().code, 0) << first_->Err();
}

TEST_F(Followers, OneThatComesBackTakesItsPlaceAgain) {
  StartPair({"train.epochs=100"});
  second_->Signal(SIGKILL);
  second_->Wait();
  const int before = Times(first_->Err(), kFollows);
  second_ = std::make_unique<Process>(Following(address_, "second") +
                                      std::vector<std::string>{"--replica", "2"});
  ASSERT_TRUE(SecondIsFollowing(before)) << first_->Err();
  EXPECT_TRUE(Eventually([&] { return Times(first_->Err(), "can be written again") > 0; }))
      << first_->Err();
  first_->Signal(SIGKILL);
  ExpectWorkersFinish();
  EXPECT_EQ(second_->Wait().code, 0) << second_->Err();
  EXPECT_EQ(Summary("second")["epochs"], 100.0);
}

// The leader would drop the one that is there, which would not hear of it, and both would lead in
// the end.
TEST_F(Followers, ANumberIsTheServersWhoseDirectoryKnowsIt) {
  // Long enough for one that is starved not to be taken for gone.
  StartPair({"train.epochs=150", "durability.takeover=3s"});
  const auto another = [&] {
    return RunProgram(Following(address_, "another") + std::vector<std::string>{"--replica", "2"});
  };
  Ended refused = another();
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, HasSubstr("server 2 of this run is another one, at 127.0.0.1:"));
  EXPECT_THAT(refused.err, HasSubstr("ps-ctl drop-follower 2"));
  EXPECT_TRUE(IsFollowed(address_));
  EXPECT_EQ(Times(first_->Err(), kFollows), 1) << first_->Err();
  // Nor does its death make room.
  second_->Signal(SIGKILL);
  second_->Wait();
  refused = another();
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, HasSubstr("server 2 of this run is another one, at 127.0.0.1:"));
  second_ = std::make_unique<Process>(Following(address_, "second"));
  ASSERT_TRUE(second_->WaitFor("as server 2")) << second_->Err();
  ASSERT_TRUE(SecondIsFollowing(1)) << first_->Err();
  first_->Signal(SIGKILL);
  ExpectWorkersFinish();
  EXPECT_EQ(second_->Wait().code, 0) << second_->Err();
  EXPECT_EQ(Summary("second")["epochs"], 150.0);
}

TEST_F(Followers, ADirectoryOfAnotherRunOrServerIsLeftAsItIs) {
  ASSERT_EQ(RunSmall("c", Replicated({"train.epochs=2"})).code, 0);
  const auto before = FilesIn("c");
  first_ = std::make_unique<Process>(FirstServer({"train.epochs=100000"}));
  address_ = ServerOf(*first_);
  const auto follow = [&](const std::string& run_dir, const std::vector<std::string>& more) {
    return RunProgram(Following(address_, run_dir) + more);
  };
  Ended refused = follow("c/follower-1", {"--replica", "7"});
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, HasSubstr(Path("c/follower-1") + " holds server 2 of run "));
  EXPECT_THAT(refused.err, HasSubstr("not server 7"));
  refused = follow("c/follower-1", {});
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, HasSubstr("is of another run"));
  // Of the server that led it.
  refused = follow("c", {"--replica", "7"});
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, HasSubstr(Path("c") + " holds server 1 of run "));
  const Ended joined =
      RunProgram({"ps-server", "--join", address_, "--run-dir", Path("c/follower-1")});
  EXPECT_NE(joined.code, 0);
  EXPECT_THAT(joined.err, HasSubstr("which would be written over"));
  EXPECT_TRUE(FilesIn("c") == before);
  // A run that nobody follows has no such record.
  ASSERT_EQ(RunSmall("alone", Sets({"train.epochs=1"})).code, 0);
  refused = follow("alone", {});
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, HasSubstr("which would be written over"));
  first_.reset();
}

TEST_F(Followers, OfASecuredRunShowCertificates) {
  const Certificates certificates;
  Process run(PsRun("run", Replicated({"train.epochs=80", "consistency.staleness=2"}) +
                               std::vector<std::string>{"--tls-dir", certificates.dir()}));
  ASSERT_TRUE(run.WaitFor("epoch 2/80")) << run.Err();
  const Ended stranger = RunProgram(Following(ServerOf(run), "stranger") +
                                    std::vector<std::string>{"--connect-deadline", "1s"});
  EXPECT_NE(stranger.code, 0);
  ASSERT_TRUE(Eventually([&] { return Times(File("run/server/server.log"), kFollows) > 0; }));
  KillOldest(run, "run");
  const Ended ended = run.Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("took over after"));
  EXPECT_EQ(Summary("run")["epochs"], 80.0);
}

TEST_F(Followers, WhatCannotBeFollowedIsSaid) {
  Ended ended = RunProgram({"ps-server", "--follow", "127.0.0.1:1", "--port", "0", "--run-dir",
                            Path("run"), "--connect-deadline", "300ms"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("no server leads a run at 127.0.0.1:1"));
  EXPECT_THAT(ended.err, HasSubstr("durability.acknowledge: replicated"));
  ended = RunProgram({"ps-server", "--follow", "nowhere", "--port", "0"});
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("--follow takes HOST:PORT"));
  Process alone(
      {"ps-server", "--config", SmallConfig(), "--port", "0", "--run-dir", Path("alone")});
  ended = RunProgram(Following(ServerOf(alone), "run"));
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.err, HasSubstr("durability.acknowledge is not replicated"));
}

}  // namespace
}  // namespace psgd
