#include "experiment/record/run_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "experiment/record/records.h"
#include "experiment/record/summary.h"

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

class RunFilesTest : public testing::Test {
 protected:
  RunFilesTest() { fs::remove_all(root_); }
  ~RunFilesTest() override { fs::remove_all(root_); }
  void Touch(const std::string& file) const {
    fs::create_directories(fs::path(root_ + "/" + file).parent_path());
    std::ofstream(root_ + "/" + file) << "x";
  }
  // The paths below the root.
  std::vector<std::string> Found(int depth = 3) const {
    std::vector<std::string> found;
    for (const std::string& path : FindRunDirs(root_, depth))
      found.push_back(path.substr(root_.size()));
    return found;
  }
  const std::string root_ = testing::TempDir() + "psgd-run-files";
};

TEST_F(RunFilesTest, AnyFileThatARunLeavesTellsOfIt) {
  Touch("config/config.yaml");
  Touch("curves/events.out.tfevents.1.host.0");
  Touch("log/server/server.log");
  Touch("metrics/metrics.jsonl");
  Touch("notes/readme.txt");
  Touch("summary/summary.json");
  Touch("trace/trace.json");
  Touch("weights/weights.safetensors");
  Touch("weights/server/checkpoint-000000000001/manifest");
  EXPECT_THAT(Found(), ElementsAre("/config", "/curves", "/log", "/metrics", "/summary", "/trace",
                                   "/weights"));
}

TEST_F(RunFilesTest, WhatLiesBesideRunsOrWithinOneHidesNoneAndIsNone) {
  Touch("weights.safetensors");
  Touch("config.yaml");
  Touch("sweep/run/metrics.jsonl");
  Touch("several/server/server.log");
  Touch("several/server-2/config.yaml");
  Touch("a/b/c/d/metrics.jsonl");  // too deep
  EXPECT_THAT(Found(), ElementsAre("/several", "/sweep/run"));
}

TEST_F(RunFilesTest, ARunOfTwoNamesIsOneAndCirclesOfLinksEnd) {
  Touch("run/metrics.jsonl");
  fs::create_directory_symlink(root_ + "/run", root_ + "/latest");
  fs::create_directory_symlink(root_, root_ + "/circle");
  EXPECT_THAT(Found(), ElementsAre("/run"));
  EXPECT_THAT(FindRunDirs(root_ + "/none", 3), IsEmpty());
}

TEST_F(RunFilesTest, NothingIsReadFromWhatIsNoFile) {
  Touch("file");
  EXPECT_TRUE(CheckRegularFile(root_ + "/file").ok());
  EXPECT_EQ(CheckRegularFile(root_ + "/none").code(), absl::StatusCode::kNotFound);
  const std::string pipe = root_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  // Without the check each call would block on the pipe.
  for (const absl::Status& status :
       {CheckRegularFile(pipe), ReadMetrics(pipe).status(), ReadSummary(pipe).status()}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr("/pipe is a pipe"));
  }
  EXPECT_THAT(std::string(CheckRegularFile(root_).message()),
              HasSubstr("is a folder where a run has a file"));
}

}  // namespace
}  // namespace psgd
