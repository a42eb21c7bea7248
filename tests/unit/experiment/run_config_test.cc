#include "experiment/record/run_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/cores.h"
#include "experiment/config/config_yaml.h"
#include "experiment/record/run_dir.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

// Changes to a folder of its own, and back at the end.
class RunConfigTest : public testing::Test {
 protected:
  RunConfigTest() : before_(fs::current_path()), folder_(testing::TempDir() + "run_config_test") {
    fs::create_directories(folder_ + "/run");
    fs::current_path(folder_);
  }
  ~RunConfigTest() override {
    fs::current_path(before_);
    fs::remove_all(folder_);
  }
  void Write(const std::string& text) const { std::ofstream(folder_ + "/c.yaml") << text; }
  std::string Here(const std::string& name) const {
    return fs::current_path().string() + "/" + name;
  }

 private:
  const fs::path before_;
  const std::string folder_;
};

TEST_F(RunConfigTest, PathsAreAbsoluteWhereverTheyWereGiven) {
  Write(
      "model: {onnx: other.onnx}\ndata: {format: libsvm, path: sets/a9a, table: {test: "
      "../a9a.t}}\n");
  const auto config = ReadRunConfig({.config = "c.yaml", .set = {"model.onnx=onnx/ok.onnx"}});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model().onnx(), Here("onnx/ok.onnx"));
  EXPECT_EQ(config->data().path(), Here("sets/a9a"));
  EXPECT_EQ(config->data().table().test(), Here("../a9a.t"));
}

// A run that an earlier version recorded may have such a name.
TEST_F(RunConfigTest, ANewRunsNameBeginsWithoutADotOrADash) {
  for (const char* const name : {".x", "..", "-x"}) {
    Write(absl::StrCat("name: ", name, "\n"));
    EXPECT_THAT(std::string(ReadRunConfig({.config = "c.yaml"}).status().message()),
                testing::HasSubstr(absl::StrCat("\"", name, "\" begins with a dot or a dash")));
    std::ofstream("run/config.yaml") << "name: " << name << "\n";
    EXPECT_THAT(std::string(ReadRunConfig({.resume = "run"}).status().message()),
                testing::Not(testing::HasSubstr("begins with")));
  }
}

TEST_F(RunConfigTest, WhatARunSavedMeansTheSameFromAnywhere) {
  Write("model: {zoo: lenet5}\ndata: {path: digits}\n");
  const auto config = ReadRunConfig({.config = "c.yaml"});
  ASSERT_TRUE(config.ok()) << config.status();
  const RunDir dir(Here("run"));
  std::ofstream(dir.ConfigFile()) << FormatConfig(*config);
  const std::string digits = Here("digits");
  fs::current_path("run");
  const auto again = ReadRunConfig({.resume = dir.path()});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->data().path(), digits);
}

TEST_F(RunConfigTest, OtherPathsStayAsTheyAre) {
  Write("model: {onnx: /nowhere/m.onnx}\ndata: {format: synthetic}\n");
  const auto config = ReadRunConfig({.config = "c.yaml"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model().onnx(), "/nowhere/m.onnx");
  EXPECT_EQ(config->data().path(), "");
  EXPECT_EQ(config->data().table().test(), "");
}

TEST_F(RunConfigTest, ARunKeepsItsBatch) {
  const auto config = ParseConfig("data: {batch: 32}\n", "run.yaml");
  ASSERT_TRUE(config.ok()) << config.status();
  CheckpointManifest checkpoint;
  checkpoint.set_id(3);
  *checkpoint.mutable_config() = *config;
  EXPECT_TRUE(CheckGoesOn(checkpoint, *config).ok());
  checkpoint.mutable_config()->mutable_data()->set_batch(16);
  EXPECT_EQ(CheckGoesOn(checkpoint, *config).message(),
            "data.batch is 32, and was 16 when checkpoint 3 was taken: a run keeps its batches; "
            "leave the key out, or begin a new run");
}

TEST_F(RunConfigTest, AutoShardsFollowTheCores) {
  Write("model: {zoo: lenet5}\ndata: {format: synthetic}\ncluster: {shards: auto, servers: 2}\n");
  const int for_two = 2 * ShardsFor(UsableCores());
  EXPECT_EQ(ReadRunConfig({.config = "c.yaml"})->cluster().shards(), for_two);
  EXPECT_EQ(ReadRunConfig({.config = "c.yaml", .shards = "3"})->cluster().shards(), 3);
  Write("model: {zoo: lenet5}\ndata: {format: synthetic}\ncluster: {servers: 2}\n");
  EXPECT_EQ(ReadRunConfig({.config = "c.yaml", .shards = "auto"})->cluster().shards(), for_two);
  for (const char* bad : {"-1", "1025", "few"}) {
    const absl::Status status = ReadRunConfig({.config = "c.yaml", .shards = bad}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("shards"));
  }
}

TEST_F(RunConfigTest, ASimulatedRunHasNoCores) {
  Write("model: {zoo: lenet5}\ndata: {format: synthetic}\ncluster: {shards: auto}\n");
  const auto config = ReadRunConfig({.config = "c.yaml", .simulated = true});
  EXPECT_TRUE(absl::IsInvalidArgument(config.status())) << config.status();
  EXPECT_TRUE(ReadRunConfig({.config = "c.yaml", .shards = "8", .simulated = true}).ok());
}

}  // namespace
}  // namespace psgd
