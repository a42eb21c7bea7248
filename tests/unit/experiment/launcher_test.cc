#include "experiment/launch/launcher.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "experiment/record/summary.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class LauncherTest : public testing::Test {
 protected:
  LauncherTest() { fs::remove_all(run_); }
  ~LauncherTest() override { fs::remove_all(run_); }
  // No ps-server is beside this test, so that no start succeeds.
  std::string StartFails(LaunchOptions options = {}) const {
    options.own_etcd = true;
    options.run_dir = run_;
    options.run_name = "small";
    const auto started = LocalCluster::Start(options);
    EXPECT_FALSE(started.ok());
    return std::string(started.status().message());
  }

  const std::string run_ = testing::TempDir() + "launcher_test";
};

TEST_F(LauncherTest, RemovesNothingOfAnotherThatStartsThere) {
  fs::create_directories(run_ + "/server/etcd/member");
  const auto other = LocalEtcd::Lock(run_);
  ASSERT_TRUE(other.ok());
  EXPECT_THAT(StartFails(), HasSubstr("another ps-run uses " + run_));
  EXPECT_TRUE(fs::exists(run_ + "/server/etcd/member"));
}

TEST_F(LauncherTest, AStartThatFailsLeavesADirectoryThatWasThere) {
  fs::create_directories(run_);
  StartFails();
  EXPECT_TRUE(fs::exists(run_));
  fs::remove_all(run_);
  StartFails();
  EXPECT_FALSE(fs::exists(run_));
}

// Otherwise the new attempt would remove them.
TEST_F(LauncherTest, DoesNotGiveUpJournalsSilently) {
  const LaunchOptions goes_on{.resumes = true, .goes_on = true};
  fs::create_directories(run_ + "/server/journal/shard-0");
  std::ofstream(run_ + "/config.yaml") << "name: small\n";
  EXPECT_THAT(StartFails(goes_on),
              HasSubstr("the etcd that the run was started with (--etcd MEMBERS)"));
  std::ofstream(run_ + "/server/etcd.log");
  EXPECT_THAT(StartFails(goes_on), HasSubstr("put " + run_ + "/server/etcd back from a copy"));
  EXPECT_TRUE(fs::exists(run_ + "/server/journal/shard-0"));
  // A run that was stopped took a checkpoint: etcd, of which nothing says so, is not needed.
  ASSERT_TRUE(WriteSummary(Summary(), run_ + "/summary.json").ok());
  EXPECT_THAT(StartFails(goes_on), Not(HasSubstr("journals")));
}

TEST(WorkerBesideFirst, IsTheFirstThatNoPrefixStartsElsewhere) {
  LaunchOptions options{.workers = 3, .servers_on_workers = true};
  EXPECT_EQ(WorkerBesideFirst(options), 0u);
  options.worker_prefixes = {"ssh other", "", " "};
  EXPECT_EQ(WorkerBesideFirst(options), 1u);
  options.worker_prefixes = {"ssh other"};
  EXPECT_EQ(WorkerBesideFirst(options), std::nullopt);
  options = {.workers = 3, .servers_on_workers = false};
  EXPECT_EQ(WorkerBesideFirst(options), std::nullopt);
}

TEST(ServersHere, AreThoseThatNoPrefixStartsElsewhere) {
  LaunchOptions options{.workers = 3};
  EXPECT_EQ(ServersHere(options, 2), 2);
  options.servers_on_workers = true;
  EXPECT_EQ(ServersHere(options, 3), 3);
  options.worker_prefixes = {"", "ssh other"};
  EXPECT_EQ(ServersHere(options, 3), 2);
  options.worker_prefixes = {"ssh other"};
  EXPECT_EQ(ServersHere(options, 4), 1);
}

// Programs named etcd that say what the script says.
class LocalEtcdTest : public LauncherTest {
 protected:
  LocalEtcdTest() : path_(getenv("PATH")) {
    fs::create_directories(run_ + "/bin");
    fs::create_directories(run_ + "/server");
    setenv("PATH", (run_ + "/bin:" + path_).c_str(), 1);
  }
  ~LocalEtcdTest() override { setenv("PATH", path_.c_str(), 1); }
  absl::Status StartWith(const std::string& script) {
    const std::string etcd = run_ + "/bin/etcd";
    std::ofstream(etcd) << "#!/bin/sh\n" << script << "exec sleep 60\n";
    fs::permissions(etcd, fs::perms::owner_all);
    return LocalEtcd::Start(run_ + "/server", "", LocalEtcd::Data::kNew, &stops_).status();
  }

  const std::string path_;
  std::atomic<int> stops_ = 0;
};

TEST_F(LocalEtcdTest, ALongLogIsPutAsideAndOnlyItsOwnWordsCount) {
  const std::string ready = "serving client requests on 1\n", log = run_ + "/server/etcd.log";
  std::ofstream(log) << std::string(17 << 20, 'x') << ready;
  EXPECT_TRUE(StartWith("echo '" + ready + "' >&2\n").ok());
  EXPECT_LT(fs::file_size(log), 100u);
  std::ofstream(log) << ready;
  EXPECT_THAT(StartWith("echo own words >&2\nexit 1\n").message(), HasSubstr("own words"));
}

TEST_F(LocalEtcdTest, AStopEndsTheWaitForIt) {
  stops_ = 1;
  EXPECT_TRUE(absl::IsCancelled(StartWith("")));
}

}  // namespace
}  // namespace psgd
