#include "experiment/record/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

namespace psgd {
namespace {

using ::testing::HasSubstr;

class SummaryTest : public testing::Test {
 protected:
  SummaryTest() : path_(testing::TempDir() + "/summary_test.json") {
    std::filesystem::remove(path_);
  }
  ~SummaryTest() override { std::filesystem::remove(path_); }

  std::string Text() const {
    std::stringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  std::string ErrorOf(const std::string& text) {
    std::ofstream(path_) << text;
    return std::string(ReadSummary(path_).status().message());
  }

  const std::string path_;
};

Summary Example() {
  Summary summary;
  summary.name = "fashion-mnist";
  summary.status = Summary::Status::kInterrupted;
  summary.error = "stopped by Ctrl-C";
  summary.stopped_early = "no gain";
  summary.note = "odd";
  summary.test_accuracy = 0.9125;
  summary.test_measures = {{"hit_ratio_10", 0.625}, {"ndcg_10", 1}};
  summary.epochs = 4.5;
  summary.steps = 1234;
  summary.counts_incomplete = true;
  summary.wall_seconds = 12.5;
  summary.seconds_since_resume = 2.5;
  summary.samples_per_second = 5000.25;
  summary.phase_seconds = {{"compute", 6.5}, {"wire", 0.25}};
  summary.input_stall = 0.125;
  summary.residual_norm_lost = 0.25;
  summary.batches_repeated = 12;
  summary.batches_lost = 3;
  summary.bytes_pushed = std::numeric_limits<uint64_t>::max();
  summary.bytes_pushed_dense = 5;
  summary.staleness = {1.5, 1, 4, 4};
  summary.rejected = {{"malformed", 2}, {"non-finite", 1}};
  summary.workers = 2;
  summary.shards = 4;
  summary.servers = 3;
  summary.best_checkpoint = 5;
  summary.transport = "zmq";
  summary.codec = "topk";
  summary.codec_carries = "0 of 4 tensors";
  summary.codecs = {{"fc.weight", "topk(density: 0.05)"}};
  summary.seed = 7;
  return summary;
}

TEST_F(SummaryTest, RoundTrip) {
  ASSERT_TRUE(WriteSummary(Example(), path_).ok());
  const absl::StatusOr<Summary> back = ReadSummary(path_);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, Example());
  ASSERT_TRUE(WriteSummary(Summary(), path_).ok());  // replaces the file
  EXPECT_EQ(*ReadSummary(path_), Summary());
  for (const auto& entry : std::filesystem::directory_iterator(testing::TempDir())) {
    EXPECT_THAT(entry.path().string(), Not(HasSubstr("summary_test.json.tmp")));
  }
}

TEST_F(SummaryTest, HasTheFieldsThatOthersRead) {
  ASSERT_TRUE(WriteSummary(Example(), path_).ok());
  for (const char* field :
       {"\"name\": \"fashion-mnist\"",
        "\"status\": \"interrupted\"",
        "\"test_accuracy\": 0.9125",
        "\"test_loss\": null",
        "\"test_measures\": {\n    \"hit_ratio_10\": 0.625,\n    \"ndcg_10\": 1.0\n",
        "\"epochs\": 4.5",
        "\"steps\": 1234",
        "\"counts_incomplete\": true",
        "\"wall_seconds\": 12.5",
        "\"samples_per_second\": 5000.25",
        "\"input_stall\": 0.125",
        "\"phase_seconds\": {\n    \"compute\": 6.5,\n    \"wire\": 0.25\n",
        "\"residual_norm_lost\": 0.25",
        "\"batches_repeated\": 12",
        "\"batches_lost\": 3",
        "\"bytes_pushed\": 18446744073709551615",
        "\"bytes_pulled\": 0",
        "\"bytes_pushed_dense\": 5",
        "\"bytes_pulled_dense\": 0",
        "\"staleness\": {\n    \"mean\": 1.5,\n    \"p50\": 1,\n    \"p99\": 4,\n    \"max\": 4\n",
        "\"rejected\": {\n    \"malformed\": 2,\n    \"non-finite\": 1\n",
        "\"workers\": 2",
        "\"shards\": 4",
        "\"servers\": 3",
        "\"stopped_early\": \"no gain\"",
        "\"note\": \"odd\"",
        "\"best_checkpoint\": 5",
        "\"transport\": \"zmq\"",
        "\"codec\": \"topk\"",
        "\"codecs\": {\n    \"fc.weight\": \"topk(density: 0.05)\"\n",
        "\"seed\": 7"}) {
    EXPECT_THAT(Text(), HasSubstr(field));
  }
}

TEST_F(SummaryTest, NumbersThatAreNotFinite) {
  Summary summary;
  summary.samples_per_second = INFINITY;
  summary.test_loss = NAN;
  ASSERT_TRUE(WriteSummary(summary, path_).ok());
  const absl::StatusOr<Summary> back = ReadSummary(path_);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(std::isnan(back->samples_per_second));
  EXPECT_FALSE(back->test_loss.has_value());
}

TEST_F(SummaryTest, DamagedFiles) {
  EXPECT_EQ(ErrorOf(""), path_ + ": not a run's summary: no JSON object");
  EXPECT_EQ(ErrorOf("[1]"), path_ + ": not a run's summary: no JSON object");
  EXPECT_EQ(ErrorOf("{}"), path_ + ": not a run's summary: \"name\" is missing or of another type");
  ASSERT_TRUE(WriteSummary(Example(), path_).ok());
  const std::string good = Text();
  const struct {
    const char* from;
    const char* to;
    const char* key;
  } damages[] = {{"\"steps\": 1234", "\"steps\": -1", "steps"},
                 {"\"steps\": 1234", "\"steps\": 1.5", "steps"},
                 {"\"workers\": 2", "\"workers\": 3000000000", "workers"},
                 {"\"interrupted\"", "\"sleeping\"", "status"},
                 {"\"p50\": 1", "\"p50\": \"x\"", "staleness"},
                 {"\"malformed\": 2", "\"malformed\": {}", "rejected"},
                 {"\"fashion-mnist\"", "7", "name"}};
  for (const auto& damage : damages) {
    std::string text = good;
    text.replace(text.find(damage.from), std::string(damage.from).size(), damage.to);
    EXPECT_EQ(ErrorOf(text), path_ + ": not a run's summary: \"" + damage.key +
                                 "\" is missing or of another type");
  }
  for (size_t cut = 0; cut < good.size(); cut += 7) ErrorOf(good.substr(0, cut));
}

TEST_F(SummaryTest, OfAnEarlierVersionThatWroteFewerKeys) {
  std::ofstream(path_)
      << R"({"name": "old", "status": "finished", "steps": 7, "staleness": {"mean": 1,
      "p50": 1, "p99": 2, "max": 2}})";
  const absl::StatusOr<Summary> summary = ReadSummary(path_);
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->name, "old");
  EXPECT_EQ(summary->status, Summary::Status::kFinished);
  EXPECT_EQ(summary->steps, 7u);
  EXPECT_EQ(summary->staleness.max, 2u);
  EXPECT_FALSE(summary->test_accuracy.has_value());
  EXPECT_EQ(summary->input_stall, 0);
  EXPECT_EQ(ErrorOf(R"({"name": "old"})"),
            path_ + ": not a run's summary: \"status\" is missing or of another type");
}

TEST_F(SummaryTest, CannotWrite) {
  const absl::Status status = WriteSummary(Summary(), "/proc/nothing/summary.json");
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot create /proc/nothing/summary.json"));
}

TEST_F(SummaryTest, StalenessOfAHistogram) {
  CountHistogram histogram;
  histogram.Add(0, 98);
  histogram.Add(3, 2);
  EXPECT_EQ(StalenessSummary::Of(histogram), (StalenessSummary{0.06, 0, 3, 3}));
}

}  // namespace
}  // namespace psgd
