#include "experiment/record/run_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace psgd {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class RunDirTest : public testing::Test {
 protected:
  RunDirTest() {
    root_ = testing::TempDir() + "/run_dir_test";
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~RunDirTest() override { fs::remove_all(root_); }

  RunDirOptions Options() {
    RunDirOptions options;
    options.root = root_ + "/runs";
    options.name = "mnist";
    options.now = 1700000000;
    return options;
  }
  RunDirOptions At(const std::string& path) {
    RunDirOptions options = Options();
    options.path = path;
    return options;
  }
  // The directory is in use while the result lives.
  RunDir RunThatBegan(const std::string& path) {
    const absl::StatusOr<RunDir> run = RunDir::Create(At(path));
    EXPECT_TRUE(run.ok() && run->SaveConfig("name: mnist\n").ok());
    return run.value();
  }
  std::string ErrorOf(const RunDirOptions& options) {
    const absl::Status status = RunDir::Create(options).status();
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  }
  static std::string Read(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  std::string root_;
};

TEST_F(RunDirTest, DefaultIsNamedForTheRunAndTheTime) {
  const absl::StatusOr<RunDir> run = RunDir::Create(Options());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_THAT(run->path(), MatchesRegex(".*/runs/mnist-[0-9]{8}-[0-9]{6}"));
  ASSERT_TRUE(run->SaveConfig("name: mnist\n").ok());
  EXPECT_EQ(Read(run->ConfigFile()), "name: mnist\n");
  EXPECT_EQ(run->MetricsFile(), run->path() + "/metrics.jsonl");
  EXPECT_EQ(run->WorkerDir(3), run->path() + "/worker-3");
}

TEST_F(RunDirTest, RunsOfOneSecondDoNotShare) {
  const absl::StatusOr<RunDir> first = RunDir::Create(Options());
  const absl::StatusOr<RunDir> second = RunDir::Create(Options());
  const absl::StatusOr<RunDir> third = RunDir::Create(Options());
  ASSERT_TRUE(first.ok() && second.ok() && third.ok());
  EXPECT_EQ(second->path(), first->path() + "-2");
  EXPECT_EQ(third->path(), first->path() + "-3");
}

TEST_F(RunDirTest, GivenPath) {
  const absl::StatusOr<RunDir> run = RunDir::Create(At(root_ + "/a/b/c/"));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->path(), root_ + "/a/b/c");
  fs::create_directory(root_ + "/empty");
  EXPECT_TRUE(RunDir::Create(At(root_ + "/empty")).ok());
}

TEST_F(RunDirTest, RefusesADirectoryWithFiles) {
  RunThatBegan(root_ + "/a");
  EXPECT_EQ(ErrorOf(At(root_ + "/a")), "the run directory " + root_ +
                                           "/a is not empty; give another with --run-dir, or "
                                           "continue its run with --resume " +
                                           root_ + "/a");
  fs::create_directory(root_ + "/b");
  std::ofstream(root_ + "/b/thesis.tex") << "x";
  EXPECT_EQ(ErrorOf(At(root_ + "/b")), "the run directory " + root_ +
                                           "/b is not empty; give another with --run-dir, or "
                                           "empty it");
  EXPECT_EQ(Read(root_ + "/b/thesis.tex"), "x");
}

TEST_F(RunDirTest, ResumeNeedsARun) {
  RunThatBegan(root_ + "/a");
  std::ofstream(root_ + "/a/metrics.jsonl") << "{}\n";
  RunDirOptions options = At(root_ + "/a");
  options.resume = true;
  const absl::StatusOr<RunDir> run = RunDir::Create(options);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(Read(run->ConfigFile()), "name: mnist\n");
  ASSERT_TRUE(run->SaveConfig("name: again\n").ok());
  EXPECT_EQ(Read(run->ConfigFile()), "name: again\n");
  EXPECT_EQ(Read(run->MetricsFile()), "{}\n");

  options.path = root_ + "/none";
  EXPECT_EQ(ErrorOf(options),
            "no run to resume: " + root_ + "/none is not a directory; check its spelling");
  options.path = root_;
  EXPECT_EQ(ErrorOf(options),
            "no run to resume: " + root_ + " has no config.yaml; is it a run directory?");
}

TEST_F(RunDirTest, HasOneOwnerAtATime) {
  absl::StatusOr<RunDir> first = RunThatBegan(root_ + "/a");
  RunDirOptions options = At(root_ + "/a");
  options.resume = true;
  EXPECT_EQ(ErrorOf(options), "the run in " + root_ +
                                  "/a still goes on in another ps-server; look "
                                  "at it with  ps-ctl status " +
                                  root_ + "/a  or wait until it has ended");
  EXPECT_EQ(Read(first->ConfigFile()), "name: mnist\n");
  first = absl::UnknownError("gone");
  EXPECT_TRUE(RunDir::Create(options).ok());
}

TEST_F(RunDirTest, AbandonLeavesWhatWasThereBefore) {
  auto made = RunDir::Create(At(root_ + "/a"));
  ASSERT_TRUE(made.ok());
  made->Abandon();
  EXPECT_FALSE(fs::exists(root_ + "/a"));
  fs::create_directories(root_ + "/b/server/etcd");  // of a ps-run
  auto found = RunDir::Create(At(root_ + "/b"));
  ASSERT_TRUE(found.ok());
  std::ofstream(root_ + "/b/metrics.jsonl") << "{}\n";
  std::ofstream(root_ + "/b/server/server.log") << "x";
  found->Abandon();
  EXPECT_TRUE(fs::exists(root_ + "/b/server/etcd"));
  EXPECT_FALSE(fs::exists(root_ + "/b/server/server.log"));
  EXPECT_FALSE(fs::exists(root_ + "/b/metrics.jsonl"));
}

// Root may write nearly everywhere, but these places refuse root too.
TEST_F(RunDirTest, PlacesThatCannotBeWritten) {
  std::ofstream(root_ + "/file") << "x";
  EXPECT_EQ(ErrorOf(At(root_ + "/file/run")), "cannot make the folder " + root_ +
                                                  "/file/run: Not a directory; a part of "
                                                  "the path is a file, not a folder");
  EXPECT_EQ(ErrorOf(At(root_ + "/file")),
            "the run directory " + root_ + "/file is a file; give a folder with --run-dir");
  EXPECT_THAT(ErrorOf(At("/proc/psgd-run")), HasSubstr("cannot make the folder /proc/psgd-run: "));

  RunDirOptions options = Options();
  options.root = root_ + "/file";
  EXPECT_THAT(ErrorOf(options), HasSubstr("cannot make the folder " + root_ + "/file: "));
  options.root = "/proc/runs";
  EXPECT_THAT(ErrorOf(options), HasSubstr("cannot make the folder /proc/runs: "));
}

}  // namespace
}  // namespace psgd
