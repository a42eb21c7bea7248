#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiment/config/config_yaml.h"
#include "simulate/scaling.h"

namespace psgd::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kConfig[] = R"(name: small
model: {zoo: mlp, hidden: [16]}
data: {format: synthetic, synthetic: {train_samples: 2048, test_samples: 16, shape: [1, 8, 8]}, batch: 32}
cluster: {shards: 2, workers: 2}
)";

ScalingRequest Request() {
  ScalingRequest request;
  request.config = ResolveDefaults(*ParseConfig(kConfig, "small.yaml"));
  request.options.model.mutable_worker()->set_sample(1e-4);
  request.options.clocks = 10;
  request.name = "none";
  return request;
}

TEST(Scaling, WorkersAreANumbersList) {
  EXPECT_THAT(*ParseWorkers("4,1,2"), ElementsAre(1, 2, 4));
  EXPECT_THAT(*ParseWorkers("1-3,3,8"), ElementsAre(1, 2, 3, 8));
  for (const char* bad : {"", "0", "1,", "4-2", "a", "1-2-3", "5000"}) {
    const auto workers = ParseWorkers(bad);
    ASSERT_FALSE(workers.ok()) << bad;
    EXPECT_THAT(std::string(workers.status().message()), HasSubstr("--workers"));
  }
}

TEST(Scaling, ACurveForEachChange) {
  ScalingRequest request = Request();
  request.workers = {1, 2};
  request.also = {"half: compression.push=fp16; compression.dense_below=0"};
  const auto predictions = SimulateScaling(request);
  ASSERT_TRUE(predictions.ok()) << predictions.status();
  ASSERT_EQ(predictions->size(), 4u);
  EXPECT_EQ((*predictions)[0].name, "none");
  EXPECT_EQ((*predictions)[3].name, "half");
  EXPECT_LT((*predictions)[3].bytes_pushed_a_step, 0.7 * (*predictions)[1].bytes_pushed_a_step);
  const std::string plot = ScalingPlot("small", *predictions);
  EXPECT_THAT(plot, HasSubstr("<svg"));
  EXPECT_THAT(plot, HasSubstr("ideal"));
  EXPECT_THAT(PredictionTable(*predictions), HasSubstr("bound by"));
}

TEST(Scaling, AnEpochMayHaveOtherSamplesThanTheData) {
  ScalingRequest request = Request();
  request.workers = {1};
  request.samples = 100'000;
  const auto few = SimulateScaling(request);
  request.samples = 200'000;
  const auto many = SimulateScaling(request);
  ASSERT_TRUE(few.ok() && many.ok()) << few.status() << many.status();
  EXPECT_NEAR((*many)[0].run_seconds, 2 * (*few)[0].run_seconds, 0.05 * (*many)[0].run_seconds);
}

TEST(Scaling, AGlobalBatchIsShared) {
  ScalingRequest request = Request();
  std::vector<std::string> notes;
  request.on_note = [&](const std::string& note) { notes.push_back(note); };
  request.workers = {1, 3, 4};
  request.global_batch = 8;
  const auto predictions = SimulateScaling(request);
  ASSERT_TRUE(predictions.ok()) << predictions.status();
  ASSERT_EQ(predictions->size(), 3u);
  EXPECT_EQ((*predictions)[0].batch, 8);
  EXPECT_EQ((*predictions)[1].batch, 2);
  EXPECT_EQ((*predictions)[2].batch, 2);
  EXPECT_THAT(
      notes,
      ElementsAre("--global-batch 8 does not divide by 3 workers: each has 2 samples, 6 together"));
  request.workers = {1, 16};
  const auto too_many = SimulateScaling(request);
  ASSERT_FALSE(too_many.ok());
  EXPECT_THAT(std::string(too_many.status().message()),
              HasSubstr("--global-batch 8 is less than a sample for each of 16 workers"));
}

TEST(Scaling, AModelThatComputesInNoTimeIsRefused) {
  ScalingRequest request = Request();
  request.options.model.mutable_worker()->set_sample(0);
  const auto predictions = SimulateScaling(request);
  ASSERT_FALSE(predictions.ok());
  EXPECT_THAT(std::string(predictions.status().message()),
              HasSubstr("worker.sample and worker.step are 0"));
  request.options.model.mutable_worker()->set_step(1e-3);
  EXPECT_TRUE(SimulateScaling(request).ok());
}

TEST(Scaling, ServersBesideWorkersTellTheirShares) {
  ScalingRequest request = Request();
  request.options.servers_on_workers = true;
  request.config.mutable_cluster()->set_shards(4);
  request.config.mutable_cluster()->set_slice(64);
  const auto predictions = SimulateScaling(request);
  ASSERT_TRUE(predictions.ok()) << predictions.status();
  EXPECT_THAT(
      PredictionTable(*predictions),
      testing::ContainsRegex("servers\n.*share of each\n +none +2 +1 +- +[45].\\.. %\n +none "
                             "+2 +2 +a worker +2"));
  EXPECT_THAT(PredictionJson(*predictions), HasSubstr("\"servers_beside\":2"));
  request.options.servers_on_workers = false;
  EXPECT_THAT(PredictionTable(*SimulateScaling(request)), testing::Not(HasSubstr("\nservers\n")));
}

TEST(Scaling, ServersBesideWorkersThatCannotBeAreRefused) {
  const auto error = [](const ScalingRequest& request) {
    return std::string(SimulateScaling(request).status().message());
  };
  ScalingRequest request = Request();
  SimModel& model = request.options.model;
  model.mutable_server()->set_hosts(0);
  EXPECT_THAT(error(request), HasSubstr("server.hosts is 0"));
  request.options.servers_on_workers = true;
  EXPECT_EQ(error(request), "");
  model.mutable_server()->set_hosts(1);
  EXPECT_THAT(error(request), testing::AllOf(HasSubstr("--servers-on-workers with 2 workers"),
                                             HasSubstr("cluster.servers is 3")));
  request.workers = {1};
  EXPECT_EQ(error(request), "");
  request.workers = {256};
  EXPECT_THAT(error(request), HasSubstr("256"));
  request.workers = {1};
  model.mutable_failures()->set_every(60);
  EXPECT_THAT(error(request), HasSubstr("failures.every"));
  model.mutable_failures()->set_every(0);
  request.config.mutable_cluster()->set_copies(2);
  EXPECT_THAT(error(request), HasSubstr("cluster.copies"));
}

TEST(Scaling, OneNumberOfWorkersHasNoSpeedUp) {
  Prediction one;
  one.name = "a";
  one.workers = 7;
  one.samples_per_second = 100;
  EXPECT_THAT(PredictionTable({one}), testing::ContainsRegex("  7 .* 100 +- "));
  Prediction more = one;
  more.workers = 14;
  more.samples_per_second = 150;
  EXPECT_THAT(PredictionTable({one, more}), HasSubstr("1.50"));
  EXPECT_THAT(PredictionTable({one, more}),
              testing::EndsWith("a whole run's, with its start and evaluations.\n"));
}

TEST(Scaling, AWrongChangeIsNamed) {
  ScalingRequest request = Request();
  request.also = {"compression.push=topq"};
  const auto predictions = SimulateScaling(request);
  ASSERT_FALSE(predictions.ok());
  EXPECT_THAT(std::string(predictions.status().message()), HasSubstr("topq"));
}

TEST(Scaling, ClocksThatGrowAreRefusedInEachCurve) {
  ScalingRequest request = Request();
  request.also = {"local={steps: 8, least: 2, schedule: {cosine: {}}}"};
  const auto predictions = SimulateScaling(request);
  ASSERT_FALSE(predictions.ok());
  EXPECT_THAT(std::string(predictions.status().message()), HasSubstr("local.least lets them grow"));
}

TEST(Scaling, MachinesReadPredictions) {
  ScalingRequest request = Request();
  const auto predictions = SimulateScaling(request);
  ASSERT_TRUE(predictions.ok()) << predictions.status();
  EXPECT_THAT(PredictionJson(*predictions), HasSubstr("\"samples_per_second\":"));
  const std::string csv = PredictionCsv(*predictions);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 2);
}

}  // namespace
}  // namespace psgd::sim
