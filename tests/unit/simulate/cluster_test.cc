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

TEST(SimulatedRun, LocalStepsSendOnceAClock) {
  const Prediction plain = Small(2).Run(), local = Small(2).Set("local.steps=8").Run();
  EXPECT_NEAR(local.bytes_pushed_a_step, plain.bytes_pushed_a_step / 8,
              0.001 * plain.bytes_pushed_a_step);
  EXPECT_NEAR(local.bytes_pulled_a_step, plain.bytes_pulled_a_step / 8,
              0.01 * plain.bytes_pulled_a_step);
  EXPECT_NEAR(local.samples_per_second, 2000, 40);
}

TEST(SimulatedRun, FragmentsLeaveTheBytesOfARoundAsTheyWere) {
  const Prediction whole = Small(2).Set("local.steps=8").Run();
  Case parts = Small(2);
  parts.options.clocks = 4 * 40;  // equally many steps
  const Prediction four = parts.Set("local={steps: 8, fragments: 4}").Run();
  EXPECT_NEAR(four.bytes_pushed_a_step, whole.bytes_pushed_a_step,
              0.02 * whole.bytes_pushed_a_step);
  EXPECT_NEAR(four.bytes_pulled_a_step, whole.bytes_pulled_a_step,
              0.03 * whole.bytes_pulled_a_step);  // with a header for each fragment
}

// Eight steps take 80 ms, and an exchange 30 ms.
TEST(SimulatedRun, ADelayHidesASlowLink) {
  Case waits = Small(2);
  waits.options.model.mutable_network()->set_worker_link(8 * 8192 * sizeof(float) / 0.015);
  Case hidden = waits;
  EXPECT_NEAR(waits.Set("local.steps=8").Run().samples_per_second, 2000 * 80 / 110, 40);
  EXPECT_NEAR(hidden.Set("local={steps: 8, delay: 4, mix: 0.5}").Run().samples_per_second, 2000,
              40);
}

// With as many steps for all, each clock waits for the slowest worker.
TEST(SimulatedRun, AutoGivesEachWorkerStepsByItsSpeed) {
  Case equal = Small(8);
  equal.Set("cluster.segment=4").options.model.mutable_worker()->set_pace(0.6);
  Case automatic = equal;
  const Prediction by_speed = automatic.Set("local={steps: auto, most: 16}").Run();
  EXPECT_GT(by_speed.samples_per_second,
            1.2 * equal.Set("local.steps=16").Run().samples_per_second);
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

  small.options.servers_on_workers = true;
  const std::string beside = PredictionCsv({small.Run()});
  EXPECT_EQ(PredictionCsv({small.Run()}), beside);
  small.options.seed = 1;
  EXPECT_NE(PredictionCsv({small.Run()}), beside);
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

constexpr int kWeights = 614'400;  // of SlowLinks' network
constexpr double kWeightBytes = kWeights * sizeof(float);

// Shards of one slice each, of the same bytes. All weights pass a link in a second, and computing
// takes next to nothing: gradients leave at the step's end.
Case SlowLinks(int workers, int shards) {
  Case slow = Small(workers);
  ClusterConfig* const cluster = slow.workload.config.mutable_cluster();
  cluster->set_shards(shards);
  cluster->set_slice(static_cast<int64_t>(kWeightBytes) / shards);
  cluster->set_resend(3'600'000);
  cluster->set_deadline(7'200'000);
  slow.workload.model.mutable_parameters()->DeleteSubrange(1, 7);
  slow.workload.model.mutable_parameters(0)->set_shape(0, kWeights);
  slow.workload.weights = kWeights;
  SimModel& model = slow.options.model;
  model.mutable_worker()->set_sample(1e-6);
  model.mutable_worker()->set_overlap(0);
  model.mutable_network()->set_worker_link(kWeightBytes);
  model.mutable_network()->set_server_link(kWeightBytes);
  return slow;
}
// With a server beside each worker, and `own` on hosts of their own.
Case Beside(int own, int workers, int shards) {
  Case beside = SlowLinks(workers, shards);
  beside.options.servers_on_workers = true;
  beside.options.model.mutable_server()->set_hosts(own);
  return beside;
}

// M bytes, n workers, links of B each way. Pushes and pulls of a slice take turns.
TEST(SimulatedRun, AStepOfServersBesideWorkersTakesWhatTheFormulaSays) {
  const Prediction one = SlowLinks(4, 8).Run();
  EXPECT_NEAR(one.step, 2 * 4, 0.02 * 8);  // nM/B each way
  EXPECT_EQ(one.own.servers, 1);
  EXPECT_EQ(one.own.most, 1);
  for (const int n : {2, 4, 8}) {
    const Prediction prediction = Beside(0, n, n).Run();
    const double each_way = (n - 1.0) / n;
    EXPECT_NEAR(prediction.step, 2 * each_way, 0.02 * 2 * each_way) << n;
    EXPECT_DOUBLE_EQ(prediction.beside.most, 1.0 / n);
    EXPECT_EQ(prediction.own.servers, 0);
    EXPECT_GT(prediction.worker_link_in, 0.95);
    EXPECT_EQ(prediction.server_link_in, 0);
  }
}

// The optimum of BytePS, 2n(n-1)M/((n^2+k(n-2))B), is that of pushes and pulls at the same time.
TEST(SimulatedRun, MixedServersShareTheBytesSoThatAllLinksAreAsBusy) {
  const int n = 4;
  const auto best = [](int k) { return 2.0 * n * (n - 1) / (n * n + k * (n - 2)); };
  struct Mix {
    int own, shards;
    double times;  // what an own server holds, of what one beside a worker holds: 2(n-1)/(n-k)
  };
  for (const Mix& mix : {Mix{1, 6, 2}, Mix{2, 10, 3}}) {
    Case mixed = Beside(mix.own, n, mix.shards);
    const Prediction turns = mixed.Run();
    const Prediction both = mixed.Set("consistency={staleness: 1, pull_ahead: true}").Run();
    for (const Prediction& each : {turns, both}) {
      EXPECT_DOUBLE_EQ(each.own.least, mix.times / mix.shards);
      EXPECT_DOUBLE_EQ(each.own.most, mix.times / mix.shards);
      EXPECT_DOUBLE_EQ(each.beside.least, 1.0 / mix.shards);
      EXPECT_DOUBLE_EQ(each.beside.most, 1.0 / mix.shards);
      EXPECT_NEAR(each.server_link_in, each.worker_link_in, 0.02);
      EXPECT_NEAR(each.server_link_out, each.worker_link_out, 0.02);
    }
    EXPECT_NEAR(turns.step, 2 * best(mix.own), 0.02 * 2 * best(mix.own)) << mix.own;
    EXPECT_NEAR(both.step, best(mix.own), 0.02 * best(mix.own)) << mix.own;
  }
  // Servers beside workers are of no use to as many others.
  const Prediction others = Beside(4, n, 8).Run();
  EXPECT_EQ(others.beside.most, 0);
  EXPECT_DOUBLE_EQ(others.own.most, 0.25);
}

TEST(SimulatedRun, AWorkerReachesTheServerBesideItWithoutItsLink) {
  Case alone = Beside(0, 1, 8);
  alone.options.model.mutable_worker()->set_sample(1e-3);
  alone.options.model.mutable_network()->set_latency(1);
  const Prediction prediction = alone.Run();
  EXPECT_NEAR(prediction.step, 0.010, 0.0002);
  EXPECT_EQ(prediction.worker_link_out, 0);
}

TEST(SimulatedRun, AWorkerAndTheServerBesideItShareProcessors) {
  Case beside = Beside(0, 2, 2);
  beside.Set("consistency.staleness=8");
  beside.options.model.mutable_worker()->set_sample(1e-3);
  beside.options.model.mutable_network()->set_worker_link(0);
  // A shard of half the bytes takes 1 ms to receive or send them, 4 ms a step of both workers. Each
  // waits for 2 of them.
  beside.options.model.mutable_server()->set_byte(2e-3 / kWeightBytes);
  EXPECT_NEAR(beside.Run().step, 0.012, 0.0005);
  beside.options.model.mutable_server()->set_cores(1);
  EXPECT_NEAR(beside.Run().step, 0.014, 0.0005);
}

TEST(SimulatedRun, SitesReachEachOtherByBothWays) {
  Case far = Beside(0, 2, 2);
  for (const double latency : {0.1, 0.3}) {
    SimSite* const site = far.options.model.mutable_network()->add_sites();
    site->set_latency(latency);
  }
  EXPECT_NEAR(far.Run().step, 0.8, 0.01);
}

TEST(SimulatedRun, ShardsOfAServerMayBeOne) {
  Case mixed = Beside(1, 4, 24);
  const double exact = mixed.Run().step;
  mixed.options.most_flows = 4;
  const Prediction few = mixed.Run();
  EXPECT_EQ(few.simulated_shards, 5u);
  EXPECT_NEAR(few.step, exact, 0.03 * exact);
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
