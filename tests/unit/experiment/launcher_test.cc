#include "experiment/launch/launcher.h"

#include <gmock/gmock.h>

#include <filesystem>

namespace psgd {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class LauncherTest : public testing::Test {
 protected:
  LauncherTest() { fs::remove_all(run_); }
  ~LauncherTest() override { fs::remove_all(run_); }
  // No ps-server is beside this test, so that no start succeeds.
  std::string StartFails() const {
    LaunchOptions options;
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

}  // namespace
}  // namespace psgd
