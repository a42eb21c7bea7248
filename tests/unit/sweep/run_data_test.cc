#include "experiment/report/run_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/unit/sweep/made_runs.h"

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

class RunDataTest : public testing::Test {
 protected:
  RunDataTest() : dir_(testing::TempDir() + "/run_data_test") { std::filesystem::remove_all(dir_); }
  ~RunDataTest() override { std::filesystem::remove_all(dir_); }
  const std::string dir_;
};

TEST_F(RunDataTest, ReadsAWholeRun) {
  WriteRun(dir_, {.accuracies = {0.5, 0.7, 0.8}, .staleness_counts = {4, 6}});
  const RunData run = ReadRunData(dir_);
  EXPECT_THAT(run.problems, IsEmpty());
  ASSERT_EQ(run.curve.size(), 3u);
  EXPECT_EQ(run.curve[1].score.value, 0.7);
  EXPECT_NEAR(run.curve[1].seconds, 20.0 / 3, 1e-6);
  EXPECT_NEAR(run.curve[1].bytes_pushed, 2e6 / 3, 1);
  EXPECT_THAT(run.pull_staleness, ElementsAre(4, 6));
  EXPECT_THAT(PhasesOf(run), ElementsAre(Pair("data", 1), Pair("compute", 5), Pair("encode", 2),
                                         Pair("wait", 1), Pair("wire", 0.75), Pair("apply", 0.25)));
  EXPECT_EQ(run.seconds, 10);
}

TEST_F(RunDataTest, RecordsOfEarlierVersionsTellLessOfTheTime) {
  std::filesystem::create_directories(dir_);
  WriteText(
      dir_ + "/metrics.jsonl",
      "{\"kind\":\"progress\",\"seconds\":4,\"epoch\":1,\"seconds_data\":1,\"seconds_compute\":2,"
      "\"seconds_encode\":1,\"seconds_wait\":3}\n");
  EXPECT_THAT(PhasesOf(ReadRunData(dir_)),
              ElementsAre(Pair("data", 1), Pair("compute", 2), Pair("encode", 1), Pair("wait", 3)));
}

// A resumed run counts its seconds from 0, and repeats evaluations after its checkpoint.
TEST_F(RunDataTest, ARunThatWentOnHasOneCurve) {
  std::filesystem::create_directories(dir_);
  WriteText(dir_ + "/metrics.jsonl",
            "{\"kind\":\"evaluation\",\"seconds\":4,\"epoch\":1,\"accuracy\":0.5}\n"
            "{\"kind\":\"evaluation\",\"seconds\":8,\"epoch\":2,\"accuracy\":0.6}\n"
            "{\"kind\":\"evaluation\",\"seconds\":3,\"epoch\":2,\"accuracy\":0.65}\n"
            "{\"kind\":\"evaluation\",\"seconds\":6,\"epoch\":3,\"accuracy\":0.7}\n");
  const RunData run = ReadRunData(dir_);
  ASSERT_EQ(run.curve.size(), 3u);
  EXPECT_EQ(run.curve[1].score.value, 0.65);
  EXPECT_EQ(run.curve[1].seconds, 11);
  EXPECT_EQ(run.curve[2].seconds, 14);
}

TEST_F(RunDataTest, EvaluationsOfTrainingThatWasGivenUpDoNotCount) {
  std::filesystem::create_directories(dir_);
  WriteText(dir_ + "/metrics.jsonl",
            "{\"kind\":\"evaluation\",\"seconds\":4,\"epoch\":1,\"accuracy\":0.5}\n"
            "{\"kind\":\"evaluation\",\"seconds\":6,\"epoch\":2,\"accuracy\":0.6}\n"
            "{\"kind\":\"evaluation\",\"seconds\":8,\"epoch\":3,\"accuracy\":0.7}\n"
            "{\"kind\":\"resumed\",\"seconds\":1,\"checkpoint\":1,\"epoch\":1}\n");
  EXPECT_EQ(ReadRunData(dir_).curve.size(), 1u);
}

// Between progress records bytes and samples grow with the epoch.
TEST_F(RunDataTest, EvaluationsTakeBytesFromTheRecordsAroundThem) {
  std::filesystem::create_directories(dir_);
  WriteText(
      dir_ + "/metrics.jsonl",
      "{\"kind\":\"evaluation\",\"seconds\":1,\"epoch\":1,\"accuracy\":0.5}\n"
      "{\"kind\":\"evaluation\",\"seconds\":2,\"epoch\":2,\"accuracy\":0.6}\n"
      "{\"kind\":\"progress\",\"seconds\":3,\"epoch\":2.5,\"bytes_pushed\":50,\"samples\":250}\n"
      "{\"kind\":\"evaluation\",\"seconds\":4,\"epoch\":3,\"accuracy\":0.7}\n"
      "{\"kind\":\"progress\",\"seconds\":5,\"epoch\":3,\"bytes_pushed\":90,\"samples\":300}\n"
      "{\"kind\":\"evaluation\",\"seconds\":6,\"epoch\":4,\"accuracy\":0.8}\n");
  const RunData run = ReadRunData(dir_);
  ASSERT_EQ(run.curve.size(), 4u);
  EXPECT_NEAR(run.curve[0].bytes_pushed, 20, 1e-9);
  EXPECT_NEAR(run.curve[1].bytes_pushed, 40, 1e-9);
  EXPECT_NEAR(run.curve[1].samples, 200, 1e-9);
  EXPECT_NEAR(run.curve[2].bytes_pushed, 90, 1e-9);
  EXPECT_NEAR(run.curve[3].samples, 300, 1e-9);  // no later record tells more
}

TEST_F(RunDataTest, DamageIsToldAndTheRestIsRead) {
  WriteRun(dir_, {});
  const std::string metrics = ReadText(dir_ + "/metrics.jsonl");
  WriteText(dir_ + "/metrics.jsonl",
            "garbage\n" + metrics + "{\"kind\":\"evaluation\",\"seconds\":9");
  WriteText(dir_ + "/summary.json", "{\"name\": ");
  std::filesystem::remove(dir_ + "/config.yaml");
  const RunData run = ReadRunData(dir_);
  EXPECT_EQ(run.curve.size(), 2u);
  EXPECT_FALSE(run.summary);
  EXPECT_THAT(run.problems, ElementsAre("config.yaml is missing", HasSubstr("not a run's summary"),
                                        "metrics.jsonl, line 1 is damaged; it is left out"));
}

TEST_F(RunDataTest, PipesInPlaceOfFilesAreToldAndNotWaitedFor) {
  std::filesystem::create_directories(dir_);
  for (const char* name : {"config.yaml", "metrics.jsonl", "summary.json"}) {
    ASSERT_EQ(mkfifo((dir_ + "/" + name).c_str(), 0600), 0);
  }
  EXPECT_THAT(ReadRunData(dir_).problems,
              ElementsAre(HasSubstr("config.yaml is a pipe"), HasSubstr("summary.json is a pipe"),
                          HasSubstr("metrics.jsonl is a pipe")));
}

TEST_F(RunDataTest, FollowsAFileThatGrows) {
  std::filesystem::create_directories(dir_);
  const std::string path = dir_ + "/metrics.jsonl";
  MetricsFollower follower(path);
  follower.Look();  // the file does not exist yet
  const std::string line = "{\"kind\":\"evaluation\",\"seconds\":4,\"epoch\":1,\"accuracy\":0.5}\n";
  WriteText(path, line.substr(0, 20));
  follower.Look();
  EXPECT_THAT(follower.curve(), IsEmpty());
  WriteText(path, line);
  follower.Look();
  follower.Look();
  EXPECT_EQ(follower.curve().size(), 1u);
  EXPECT_THAT(follower.problems(), IsEmpty());
}

}  // namespace
}  // namespace psgd
