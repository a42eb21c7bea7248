#include "server/coordinator/early_stop.h"

#include "tests/unit/server/coordinator/coordinator_fixture.h"

namespace psgd {
namespace {

using testing::HasSubstr;

EvalResult Result(double epoch, double accuracy) {
  EvalResult result;
  result.set_epoch(epoch);
  result.set_accuracy(accuracy);
  return result;
}

std::optional<std::string> Why(int patience, double least, const std::vector<double>& accuracies) {
  EarlyStopConfig config;
  config.set_patience(patience);
  config.set_least(least);
  std::vector<EvalResult> evaluations;
  for (const double accuracy : accuracies) {
    evaluations.push_back(Result(static_cast<double>(evaluations.size()) + 1, accuracy));
  }
  return WhyStopEarly(config, evaluations);
}

TEST(EarlyStop, EndsOnceTheBestIsAsOldAsThePatience) {
  EXPECT_FALSE(Why(0, 0, {0.5, 0.4, 0.3, 0.2}));
  EXPECT_FALSE(Why(2, 0, {}));
  EXPECT_FALSE(Why(2, 0, {0.5, 0.4, 0.6, 0.6}));
  EXPECT_EQ(*Why(2, 0, {0.5, 0.4, 0.6, 0.6, 0.55}),
            "the test set's accuracy got no better than 0.6, of epoch 3, in 2 evaluations "
            "(train.early_stop)");
}

TEST(EarlyStop, AGainThatIsTooSmallDoesNotCount) {
  EXPECT_FALSE(Why(2, 0, {0.5, 0.505, 0.509}));
  EXPECT_TRUE(Why(2, 0.01, {0.5, 0.505, 0.509}));
  // Small gains add up.
  EXPECT_FALSE(Why(3, 0.01, {0.5, 0.505, 0.509, 0.515}));
}

TEST(EarlyStop, AnErrorIsBetterWhenItIsSmaller) {
  EarlyStopConfig config;
  config.set_patience(1);
  std::vector<EvalResult> evaluations(2);
  (*evaluations[0].mutable_measures())["rmse"] = 0.5;
  (*evaluations[1].mutable_measures())["rmse"] = 0.4;
  EXPECT_FALSE(WhyStopEarly(config, evaluations));
  (*evaluations[1].mutable_measures())["rmse"] = 0.6;
  EXPECT_THAT(*WhyStopEarly(config, evaluations), HasSubstr("rmse got no better than 0.5"));
  evaluations.assign(2, {});
  evaluations[0].set_loss(0.3);
  evaluations[1].set_loss(std::nan(""));
  EXPECT_THAT(*WhyStopEarly(config, evaluations), HasSubstr("loss got no better than 0.3"));
}

Config EarlyConfig() {
  Config config = CoordinatorConfig(1, 10, 8);
  config.mutable_train()->mutable_early_stop()->set_patience(2);
  return config;
}

// The worker does epoch after epoch, of one segment each, and evaluates with these accuracies.
NextSegmentReply TrainUntilWait(CoordinatorFixture& run, const WorkerKey& key,
                                const std::vector<double>& accuracies) {
  NextSegmentReply next = run.Next(key);
  for (size_t i = 0; i < accuracies.size(); ++i) {
    const uint64_t id = next.segment().id();
    next = run.Next(key, id);
    EXPECT_TRUE(next.evaluate());
    run.Evaluate(key, next.evaluate_epoch(), accuracies[i]);
  }
  return next;
}

TEST(EarlyStop, TheRunIsFinishedThen) {
  CoordinatorFixture run(EarlyConfig());
  const WorkerKey key = run.JoinAndRegister();
  NextSegmentReply next = TrainUntilWait(run, key, {0.5, 0.4, 0.3});
  EXPECT_THAT(run.News(), HasSubstr("stops early: the test set's accuracy got no better than 0.5"));
  // The segment that is dealt is done, and evaluated, before the last checkpoint.
  next = run.Next(key, next.segment().id());
  EXPECT_TRUE(next.evaluate());
  run.Evaluate(key, next.evaluate_epoch(), 0.6);
  next = run.Next(key, 4);
  EXPECT_EQ(next.kind(), NextSegmentReply::WAIT);
  run.CheckpointDone(1);
  next = run.Next(key, 4);
  EXPECT_EQ(next.kind(), NextSegmentReply::DONE);
  EXPECT_THAT(next.reason(), HasSubstr("train.early_stop"));
  const StatusReply status = run.core().Status(run.now());
  EXPECT_EQ(status.state(), StatusReply::FINISHED);
  EXPECT_EQ(status.detail(), "");
  EXPECT_THAT(status.stopped_early(), HasSubstr("train.early_stop"));
}

TEST(Evaluations, TheNewsHasAllMeasures) {
  CoordinatorFixture run(EarlyConfig());
  const WorkerKey key = run.JoinAndRegister();
  const NextSegmentReply next = run.Next(key, run.Next(key).segment().id());
  ASSERT_TRUE(next.evaluate());
  EvaluatedRequest request;
  *request.mutable_key() = key;
  EvalResult* const result = request.mutable_result();
  result->set_epoch(next.evaluate_epoch());
  result->set_loss(0.25);
  (*result->mutable_measures())["rmse"] = 48214;
  (*result->mutable_measures())["r2"] = 0.75;
  Effects effects;
  ASSERT_TRUE(run.core().Evaluated(request, run.now(), &effects).ok());
  EXPECT_THAT(effects.news,
              ::testing::ElementsAre("epoch 1: test loss 0.2500, r2 0.7500, rmse 48214"));
}

// What is dealt is finished, so workers are not asked to leave; but a failure ends the run as one.
TEST(EarlyStop, AFailureMeanwhileIsAFailure) {
  CoordinatorFixture run(EarlyConfig());
  const WorkerKey key = run.JoinAndRegister();
  TrainUntilWait(run, key, {0.5, 0.4, 0.3});
  HeartbeatRequest heartbeat;
  *heartbeat.mutable_key() = key;
  Effects effects;
  EXPECT_FALSE(run.core().Heartbeat(heartbeat, run.now())->drain());
  DrainRequest failed;
  failed.set_failed(true);
  failed.set_reason("the weights are not finite");
  run.core().Drain(failed, &effects);
  EXPECT_TRUE(run.core().Heartbeat(heartbeat, run.now())->drain());
  const StatusReply status = run.core().Status(run.now());
  EXPECT_EQ(status.stopped_early(), "");
  EXPECT_EQ(status.detail(), "the weights are not finite");
}

TEST(EarlyStop, SurvivesARecovery) {
  CoordinatorFixture run(EarlyConfig());
  const WorkerKey key = run.JoinAndRegister();
  NextSegmentReply next = TrainUntilWait(run, key, {0.5, 0.4});
  const auto restored = [&](const CoordinatorRecord& record) {
    auto core = std::make_unique<CoordinatorCore>(
        CoordinatorOptions{.config = EarlyConfig(), .resume = {}, .checkpoint = {}});
    core->Restore(record, run.now());
    return core;
  };
  // Recovered before the evaluation that ends the run, and after it.
  const auto before = restored(run.core().Save(run.now()));
  next = run.Next(key, next.segment().id());
  Effects effects;
  EvaluatedRequest request;
  *request.mutable_key() = key;
  NextSegmentRequest finished;
  *finished.mutable_key() = key;
  finished.set_finished_segment(3);
  ASSERT_TRUE(before->NextSegment(finished, run.now(), &effects).ok());
  *request.mutable_result() = Result(3, 0.5);
  ASSERT_TRUE(before->Evaluated(request, run.now(), &effects).ok());
  EXPECT_THAT(before->Status(run.now()).stopped_early(), HasSubstr("of epoch 1"));
  const auto after = restored(before->Save(run.now()));
  EXPECT_THAT(after->Status(run.now()).stopped_early(), HasSubstr("of epoch 1"));
  EXPECT_TRUE(after->drained());
}

TEST(EarlyStop, TheLastEpochEndsByItself) {
  Config config = EarlyConfig();
  config.mutable_train()->set_epochs(3);
  CoordinatorFixture run(config);
  TrainUntilWait(run, run.JoinAndRegister(), {0.5, 0.4, 0.3});
  EXPECT_EQ(run.core().Status(run.now()).stopped_early(), "");
}

TEST(KeepBest, EachEpochEndsWithACheckpoint) {
  Config config = CoordinatorConfig(1, 4, 3);
  config.mutable_durability()->mutable_checkpoint()->set_steps(1000);
  config.mutable_durability()->set_keep_best(true);
  CoordinatorFixture run(config);
  const WorkerKey key = run.JoinAndRegister();
  NextSegmentReply next = run.Next(key);
  for (uint64_t id = 1; id <= 3; ++id) {
    EXPECT_TRUE(run.Commands<TakeCheckpoint>().empty()) << id;
    next = run.Next(key, id);  // 3, 3 and 2 batches
  }
  const auto taken = run.Commands<TakeCheckpoint>();
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].clock, 8u);
}

}  // namespace
}  // namespace psgd
