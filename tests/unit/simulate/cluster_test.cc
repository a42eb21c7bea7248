// Properties of every simulated run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiment/config/config_yaml.h"
#include "simulate/modelled_cluster.h"

namespace psgd::sim {
namespace {

struct Case {
  Workload workload;
  SimulationOptions options;

  Prediction Run() const {
    const auto traffic = MeasureTraffic(workload);
    EXPECT_TRUE(traffic.ok()) << traffic.status();
    auto prediction = ModelledCluster(workload, *traffic, options).Run();
    EXPECT_TRUE(prediction.ok()) << prediction.status();
    return prediction.ok() ? *prediction : Prediction();
  }
  Case& Set(const std::string& assignment) {
    const absl::Status set = ApplySet(assignment, &workload.config);
    EXPECT_TRUE(set.ok()) << set;
    return *this;
  }
};

// Eight layers of 8 Ki weights on 8 shards; a step computes for 10 ms; nothing else takes time.
Case Small(int workers, int64_t staleness = 0) {
  Case small;
  Config config;
  config.mutable_cluster()->set_workers(workers);
  config.mutable_cluster()->set_shards(8);
  config.mutable_consistency()->set_staleness(staleness);
  config.mutable_data()->set_batch(10);
  small.workload.config = ResolveDefaults(config);
  for (int i = 0; i < 8; ++i) {
    ParameterSpec* parameter = small.workload.model.add_parameters();
    parameter->set_name("layer" + std::to_string(i));
    parameter->add_shape(8192);
    parameter->mutable_initializer()->mutable_constant();
  }
  small.workload.samples = 100'000;
  small.workload.weights = 8 * 8192;
  SimModel& model = small.options.model;
  model.mutable_worker()->set_sample(1e-3);
  model.mutable_worker()->set_spread(0);
  model.mutable_server()->set_message(0);
  model.mutable_server()->set_byte(0);
  model.mutable_server()->set_cores(64);
  model.mutable_network()->set_latency(0);
  small.options.clocks = 40;
  return small;
}

TEST(SimulatedRun, WithoutLimitsWorkersScale) {
  EXPECT_NEAR(Small(1).Run().samples_per_second, 1000, 20);
  EXPECT_NEAR(Small(32).Run().samples_per_second, 32'000, 640);
}

TEST(SimulatedRun, TheServersLinkIsALimit) {
  Case slow = Small(32);
  slow.options.model.mutable_network()->set_server_link(32e6);
  const Prediction prediction = slow.Run();
  // Each step pushes 256 KiB through the link: 122 steps a second, of ten samples each.
  EXPECT_LT(prediction.samples_per_second, 1221);
  EXPECT_GT(prediction.samples_per_second,
            500);  // pushes and pulls of synchronous workers take turns
  EXPECT_GT(prediction.wait, prediction.compute);
}

TEST(SimulatedRun, CompressionMovesThatLimit) {
  Case dense = Small(32), sparse = Small(32);
  dense.options.model.mutable_network()->set_server_link(32e6);
  sparse.options.model = dense.options.model;
  sparse.Set("compression.push={topk: {density: 0.01}}")
      .Set("compression.pull={delta: {codec: {topk: {density: 0.01}}}}");
  EXPECT_GT(sparse.Run().samples_per_second, 5 * dense.Run().samples_per_second);
}

TEST(SimulatedRun, SharedProcessorsAreALimit) {
  Case shared = Small(8);
  shared.options.model.mutable_network()->set_together(true);
  shared.options.model.mutable_server()->set_cores(2);
  EXPECT_NEAR(shared.Run().samples_per_second, 2000, 60);
}

TEST(SimulatedRun, BytesAreThoseOfPayloadsAndHeaders) {
  const Prediction prediction = Small(2).Run();
  const double weights = 8 * 8192 * sizeof(float);
  EXPECT_GT(prediction.bytes_pushed_a_step, weights);
  EXPECT_LT(prediction.bytes_pushed_a_step, weights * 1.01);
  EXPECT_GT(prediction.bytes_pulled_a_step, weights);
  EXPECT_LT(prediction.bytes_pulled_a_step, weights * 1.01);

  Case half = Small(2);
  const double fp16 =
      half.Set("compression.push=fp16").Set("compression.dense_below=0").Run().bytes_pushed_a_step;
  EXPECT_GT(fp16, weights / 2);
  EXPECT_LT(fp16, weights / 2 * 1.02);

  // Differences of weights that changed, and not of the same weights.
  Case delta = Small(2);
  const double pulled = delta.Set("compression.pull={delta: {codec: {qsgd: {bits: 4}}}}")
                            .Set("compression.dense_below=0")
                            .Run()
                            .bytes_pulled_a_step;
  EXPECT_GT(pulled, weights / 8);
  EXPECT_LT(pulled, weights / 3);  // the first pull has whole weights
}

TEST(SimulatedRun, StalenessKeepsItsBound) {
  for (const int64_t bound : {0, 1, 3}) {
    Case uneven = Small(8, bound);
    uneven.options.model.mutable_worker()->set_spread(0.8);
    const Prediction prediction = uneven.Run();
    EXPECT_LE(prediction.pull_staleness.max(), static_cast<uint64_t>(bound));
    EXPECT_EQ(prediction.pull_staleness.max() > 0, bound > 0);
  }
}

TEST(SimulatedRun, ALooserBoundWaitsLess) {
  Case strict = Small(8, 0), loose = Small(8, 4);
  strict.options.model.mutable_worker()->set_spread(0.5);
  loose.options.model = strict.options.model;
  EXPECT_GT(loose.Run().samples_per_second, 1.1 * strict.Run().samples_per_second);
}

TEST(SimulatedRun, AQuorumDoesNotWaitForWhoIsLateNowAndThen) {
  Case all = Small(8, 0);
  all.Set("cluster.segment=1000").options.model.mutable_worker()->set_spread(0.5);
  Case quorum = all;
  quorum.Set("consistency.quorum=6").Set("consistency.grace=1ms");
  const Prediction waited = all.Run(), went_on = quorum.Run();
  EXPECT_GT(went_on.samples_per_second, 1.1 * waited.samples_per_second);
  EXPECT_EQ(waited.push_staleness.max(), 0u);
  EXPECT_GT(went_on.push_staleness.max(), 0u);
}

// Only the sizes count, not how many parameters have them.
TEST(SimulatedRun, ParametersOfAKindHaveTheSameBytes) {
  Case small = Small(1);
  small.Set("compression.push.topk.density=0.01");
  ParameterSpec* const other = small.workload.model.add_parameters();
  *other = small.workload.model.parameters(0);
  other->set_shape(0, 5000);
  const auto traffic = MeasureTraffic(small.workload);
  ASSERT_TRUE(traffic.ok()) << traffic.status();
  ASSERT_EQ(traffic->bytes.size(), 9u);
  EXPECT_EQ(traffic->bytes[0].push, traffic->bytes[7].push);
  EXPECT_GT(traffic->bytes[0].push, traffic->bytes[8].push);
  EXPECT_EQ(traffic->bytes[8].pull, 5000u * sizeof(float));
}

// At a loose bound nobody waits for a worker that is late now and then. A worker that is always
// slow keeps all others at the bound.
TEST(SimulatedRun, AWorkerThatKeepsItsPaceLeavesTheOthersAtTheBound) {
  Case now_and_then = Small(8, 8), always = Small(8, 8);
  now_and_then.options.clocks = always.options.clocks = 120;
  now_and_then.options.model.mutable_worker()->set_spread(0.3);
  always.options.model.mutable_worker()->set_pace(0.3);
  const Prediction mixed = now_and_then.Run(), sorted = always.Run();
  EXPECT_GT(sorted.pull_staleness.Mean(), 1.5 * mixed.pull_staleness.Mean());
  EXPECT_LT(sorted.samples_per_second, 0.9 * mixed.samples_per_second);
}

TEST(SimulatedRun, TheSameSeedIsTheSameRun) {
  Case small = Small(6, 2);
  small.options.model.mutable_worker()->set_spread(0.3);
  small.options.model.mutable_network()->set_worker_link(1e8);
  const std::string once = PredictionCsv({small.Run()});
  EXPECT_EQ(PredictionCsv({small.Run()}), once);
  small.options.seed = 2;
  EXPECT_NE(PredictionCsv({small.Run()}), once);
}

TEST(SimulatedRun, ShardsOfTheSameTrafficMayBeOne) {
  for (const int64_t staleness : {0, 3}) {
    Case all = Small(4, staleness);
    SimModel& model = all.options.model;
    model.mutable_worker()->set_spread(0.1);
    model.mutable_network()->set_worker_link(50e6);
    model.mutable_network()->set_server_link(80e6);
    model.mutable_server()->set_hosts(4);
    model.mutable_server()->set_byte(2e-9);
    model.mutable_server()->set_message(20e-6);
    Case folded = all;
    folded.options.most_flows = 8;
    const Prediction exact = all.Run(), few = folded.Run();
    EXPECT_EQ(exact.simulated_shards, 8u);
    EXPECT_EQ(few.simulated_shards, 2u);
    EXPECT_NEAR(few.samples_per_second, exact.samples_per_second, 0.03 * exact.samples_per_second);
    EXPECT_NEAR(few.bytes_pushed_a_step, exact.bytes_pushed_a_step,
                0.001 * exact.bytes_pushed_a_step);
    EXPECT_NEAR(few.bytes_pulled_a_step, exact.bytes_pulled_a_step,
                0.001 * exact.bytes_pulled_a_step);
    EXPECT_NEAR(few.pull_staleness.Mean(), exact.pull_staleness.Mean(), 0.15);
  }
}

TEST(SimulatedRun, ADeadWorkerIsMissedUntilItsLeaseEnds) {
  Case sound = Small(4, 4), failing = Small(4, 4);
  sound.options.clocks = failing.options.clocks = 400;
  failing.Set("cluster.lease=1s");
  failing.options.model.mutable_failures()->set_every(6);
  failing.options.model.mutable_failures()->set_restart(0.5);
  const Prediction prediction = failing.Run();
  EXPECT_GT(prediction.deaths, 0u);
  EXPECT_LE(prediction.pull_staleness.max(), 4u);
  EXPECT_LT(prediction.samples_per_second, 0.95 * sound.Run().samples_per_second);
}

TEST(SimulatedRun, WhatDependsOnMoreIsRefused) {
  Config config = ResolveDefaults(Config());
  config.mutable_compression()->mutable_push()->mutable_auto_();
  const auto workload = OpenWorkload(config);
  ASSERT_TRUE(absl::IsUnimplemented(workload.status())) << workload.status();
  EXPECT_THAT(std::string(workload.status().message()), testing::HasSubstr("push: auto"));
}

}  // namespace
}  // namespace psgd::sim
