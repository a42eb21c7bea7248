// Calibration from sound, incomplete and damaged run directories.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "experiment/config/config_yaml.h"
#include "experiment/record/summary.h"
#include "simulate/calibrate.h"
#include "simulate/modelled_cluster.h"

namespace psgd::sim {
namespace {

using testing::HasSubstr;

constexpr char kMeasuredConfig[] = R"(name: small
model: {zoo: mlp, hidden: [16]}
data: {format: synthetic, synthetic: {train_samples: 4096, test_samples: 16, shape: [1, 8, 8]}, batch: 32}
cluster: {shards: 2, workers: 1}
)";

// 128 steps of one worker. Each step computes for 10 ms, encodes for 1 ms and waits for 2 ms; the
// server takes 1 ms.
constexpr char kProgress[] =
    R"({"kind":"progress","seconds":2,"steps":128,"samples":4096,"bytes_pushed":640000,"bytes_pulled":640000,)"
    R"("bytes_pushed_dense":622592,"seconds_data":0,"seconds_compute":1.28,"seconds_encode":0.128,)"
    R"("seconds_wait":0.256,"seconds_cpu":1.536,"seconds_cpu_server":0.128})";
constexpr char kDetail[] =
    R"({"kind":"detail","seconds":2,"workers":[{"device":"cpu, 1 threads"}],)"
    R"("shards":[{"pushes":128,"pulls":128},{"pushes":128,"pulls":128}]})";

class MeasuredRunTest : public testing::Test {
 protected:
  MeasuredRunTest() : dir_(testing::TempDir() + "/measured-run-" + std::to_string(getpid())) {
    std::filesystem::create_directories(dir_);
    Write("config.yaml", kMeasuredConfig);
    Summary summary;
    summary.status = Summary::Status::kFinished;
    summary.workers = 1;
    summary.train_seconds = 1.764;
    summary.samples_per_second = 4096 / 1.764;
    EXPECT_TRUE(WriteSummary(summary, dir_ + "/summary.json").ok());
    Write("metrics.jsonl", std::string(kProgress) + "\n" + kDetail + "\n");
  }
  ~MeasuredRunTest() override { std::filesystem::remove_all(dir_); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ + "/" + name) << text;
  }
  std::string Error() const {
    const auto run = ReadMeasuredRun(dir_);
    return run.ok() ? "" : std::string(run.status().message());
  }

  const std::string dir_;
};

TEST_F(MeasuredRunTest, IsRead) {
  const auto run = ReadMeasuredRun(dir_);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->steps, 128);
  EXPECT_EQ(run->batch, 32);
  EXPECT_EQ(run->messages, 512);
  EXPECT_EQ(run->threads, 1);
}

TEST_F(MeasuredRunTest, TheModelRepeatsIt) {
  const auto run = ReadMeasuredRun(dir_);
  ASSERT_TRUE(run.ok()) << run.status();
  const auto calibration = Calibrate(*run, 2);
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  EXPECT_NEAR(calibration->again, run->samples_per_second, 0.03 * run->samples_per_second);
  EXPECT_NEAR(calibration->model.worker().sample(), 10e-3 / 32, 1e-6);
  EXPECT_NEAR(calibration->model.worker().beside(), 1e-3, 1e-6);
}

TEST_F(MeasuredRunTest, ATraceTellsTheSpread) {
  std::string events = "[";
  for (int i = 0; i < 22; ++i) {
    events +=
        R"({"name":"compute","ph":"X","dur":)" + std::to_string(i % 2 == 0 ? 8000 : 12000) + "},";
  }
  Write("trace.json", R"({"traceEvents":)" + events + "{}]}");
  const auto run = ReadMeasuredRun(dir_);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_NEAR(run->spread, 0.2, 0.01);
}

TEST_F(MeasuredRunTest, WhatIsMissingIsNamed) {
  for (const char* name : {"config.yaml", "summary.json", "metrics.jsonl"}) {
    std::filesystem::rename(dir_ + "/" + name, dir_ + "/away");
    EXPECT_THAT(Error(), HasSubstr(name));
    EXPECT_THAT(Error(), HasSubstr("ps-run CONFIG"));
    std::filesystem::rename(dir_ + "/away", dir_ + "/" + name);
  }
  EXPECT_EQ(Error(), "");
}

TEST_F(MeasuredRunTest, DamageIsNamedByFileAndLine) {
  Write("metrics.jsonl", std::string(kProgress) + "\n{\"kind\n");
  EXPECT_THAT(Error(), HasSubstr("metrics.jsonl:2"));
  Write("metrics.jsonl", std::string(kProgress) + "\n" + kDetail + "\n");
  Write("config.yaml", "name: small\nmodle: {}\n");
  EXPECT_THAT(Error(), HasSubstr("config.yaml:2:1"));
}

TEST_F(MeasuredRunTest, AnOldOrUnfinishedRunIsRefused) {
  std::string old = kProgress;
  old.replace(old.find("seconds_cpu\""), 12, "seconds_xyz\"");
  Write("metrics.jsonl", old + "\n" + kDetail + "\n");
  EXPECT_THAT(Error(), HasSubstr("older version"));
  Write("metrics.jsonl", "");
  EXPECT_THAT(Error(), HasSubstr("no progress"));
  Summary summary;
  summary.status = Summary::Status::kFinished;
  summary.servers = 3;
  ASSERT_TRUE(WriteSummary(summary, dir_ + "/summary.json").ok());
  EXPECT_THAT(Error(), HasSubstr("its shards were on 3 servers"));
  summary.status = Summary::Status::kFailed;
  ASSERT_TRUE(WriteSummary(summary, dir_ + "/summary.json").ok());
  EXPECT_THAT(Error(), HasSubstr("did not finish"));
}

}  // namespace
}  // namespace psgd::sim
