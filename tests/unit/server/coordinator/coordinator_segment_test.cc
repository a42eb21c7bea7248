// Boundaries: evaluation, checkpoints, draining, the end of the run, resuming.
#include "optimizers/diverged.h"
#include "proto/trained.h"
#include "tests/unit/server/coordinator/batches.h"
#include "tests/unit/server/coordinator/coordinator_fixture.h"

namespace psgd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// One worker, two epochs of 8 batches, segments of 4.
TEST(CoordinatorSegment, OneWorkerFromBeginningToEnd) {
  CoordinatorFixture run(CoordinatorConfig(1, 2, 4));
  const WorkerKey a = run.JoinAndRegister();
  EXPECT_EQ(run.Next(a).segment().id(), 1u);
  EXPECT_FALSE(run.Next(a, 1).evaluate());
  const NextSegmentReply third = run.Next(a, 2);
  EXPECT_EQ(third.kind(), NextSegmentReply::RUN);
  EXPECT_TRUE(third.evaluate());  // the epoch that ended comes first
  EXPECT_EQ(third.evaluate_epoch(), 1u);
  run.Evaluate(a, 1);
  run.Evaluate(a, 1);  // reported twice, counted once
  EXPECT_FALSE(run.Next(a, 3).evaluate());
  const NextSegmentReply end = run.Next(a, 4);
  EXPECT_EQ(end.kind(), NextSegmentReply::WAIT);
  EXPECT_EQ(end.evaluate_epoch(), 2u);
  EXPECT_THAT(run.Next(a, 4).reason(), HasSubstr("last evaluation"));
  run.Evaluate(a, 2);
  const NextSegmentReply saving = run.Next(a, 4);
  EXPECT_EQ(saving.kind(), NextSegmentReply::WAIT);
  EXPECT_EQ(saving.save_state_for(), 1u);
  const auto cuts = run.Commands<TakeCheckpoint>();
  ASSERT_EQ(cuts.size(), 1u);
  EXPECT_EQ(cuts[0].clock, 16u);
  ASSERT_EQ(cuts[0].savers.size(), 1u);
  EXPECT_EQ(run.core().state(), StatusReply::TRAINING);
  run.CheckpointDone(1);
  EXPECT_EQ(run.Next(a, 4).kind(), NextSegmentReply::DONE);
  EXPECT_EQ(run.core().state(), StatusReply::FINISHED);
  EXPECT_EQ(run.Next(a, 4).kind(), NextSegmentReply::DONE);
  EXPECT_EQ(run.core().Status(run.now()).evaluations_size(), 2);
  JoinRequest late;
  Effects effects;
  EXPECT_TRUE(absl::IsFailedPrecondition(run.core().Join(late, run.now(), &effects).status()));
}

// What a worker reports of its own time says how many local steps it takes while others take
// theirs.
TEST(CoordinatorSegment, LocalStepsFollowTheSpeedOfWorkers) {
  Config config = CoordinatorConfig(3, 1, 1);
  config.mutable_local()->set_steps(0);
  config.mutable_local()->set_most(20);
  CoordinatorFixture run(config, 1000);
  const std::vector<WorkerKey> workers = {run.JoinAndRegister(), run.JoinAndRegister(),
                                          run.JoinAndRegister()};
  const auto steps = [&](CoordinatorFixture& run, uint64_t finished) {
    std::vector<uint32_t> of;
    for (const WorkerKey& key : workers) of.push_back(run.Next(key, finished).segment().steps(0));
    return of;
  };
  EXPECT_THAT(steps(run, 0), ElementsAre(20, 20, 20));  // nobody has computed yet
  const auto report = [&](const WorkerKey& key, uint64_t done, double seconds) {
    HeartbeatRequest beat;
    *beat.mutable_key() = key;
    beat.set_number(1);
    beat.mutable_report()->set_steps(done);
    beat.mutable_report()->set_samples(done);
    beat.mutable_report()->set_seconds_compute(seconds);
    EXPECT_TRUE(run.core().Heartbeat(beat, run.now()).ok());
  };
  report(workers[0], 20, 2);
  report(workers[1], 20, 8);  // four times slower
  report(workers[2], 2, 200);
  CoordinatorFixture again(config, 1000);  // of a server that takes over
  again.core().Restore(run.core().Save(run.now()), again.now());
  for (CoordinatorFixture* each : {&run, &again}) {
    for (const WorkerKey& key : workers) each->Next(key, 1);
    EXPECT_THAT(steps(*each, 1), ElementsAre(20, 5, 1));
  }
}

// By the square of what is left of the rate.
TEST(CoordinatorSegment, LocalStepsGrowAsTheRateFalls) {
  Config config = CoordinatorConfig(1, 1, 1);
  config.mutable_local()->set_steps(20);
  config.mutable_local()->set_least(2);
  ScheduleConfig* schedule = config.mutable_local()->mutable_schedule();
  schedule->mutable_warmup()->set_steps(2);
  schedule->mutable_linear()->set_floor(0);
  CoordinatorFixture run(config, 42);
  const WorkerKey worker = run.JoinAndRegister();
  std::vector<uint32_t> steps, most, first;
  for (uint64_t clock = 0;; ++clock) {
    const NextSegmentReply reply = run.Next(worker, clock);
    if (!reply.has_segment()) break;
    steps.push_back(reply.segment().steps(0));
    most.push_back(reply.segment().most_steps());
    first.push_back(static_cast<uint32_t>(reply.segment().first_step()));
  }
  // After 2 steps the rate is highest; after 22 it is half, so there are four times as many.
  EXPECT_THAT(steps, ElementsAre(2, 2, 2, 2, 2, 3, 3, 4, 6, 12, 20));
  EXPECT_EQ(most, steps);
  EXPECT_THAT(first, ElementsAre(0, 2, 4, 6, 8, 10, 13, 16, 20, 26, 38));
}

TEST(CoordinatorSegment, AnEpochThatCutsClocksShortIsTold) {
  Config config = CoordinatorConfig(2, 1, 64);
  config.mutable_local()->set_steps(25);
  const auto told = [&](uint64_t batches) {
    CoordinatorFixture run(config, batches);
    const std::vector<WorkerKey> workers = {run.JoinAndRegister(), run.JoinAndRegister()};
    for (const WorkerKey& key : workers) run.Next(key);
    return run.News();
  };
  EXPECT_THAT(told(9), HasSubstr("local.steps is 25, and an epoch has 5 batches for each worker: a "
                                 "clock ends with the epoch, so workers exchange after 5 steps; "
                                 "set local.steps to 5 or less, or lower data.batch"));
  EXPECT_THAT(told(50), testing::Not(HasSubstr("local.steps")));
}

TEST(CoordinatorSegment, AStepLimitCountsLocalSteps) {
  Config config = CoordinatorConfig(1, 1, 64);
  config.mutable_local()->set_steps(8);
  config.mutable_train()->set_max_steps(20);
  CoordinatorFixture run(config, 1000);
  const WorkerKey a = run.JoinAndRegister();
  const Segment segment = run.Next(a).segment();
  EXPECT_EQ(segment.clocks(), 3u);
  EXPECT_EQ(segment.batches_size(), 24);
  const NextSegmentReply end = run.Next(a, segment.id());
  EXPECT_TRUE(end.evaluate());
  EXPECT_NEAR(end.evaluate_epoch(), 0.024, 1e-9) << "the epoch goes on";
}

TEST(CoordinatorSegment, MeasuresAreKeptIfTheyCanBeNamesOfMetrics) {
  CoordinatorFixture run(CoordinatorConfig(1, 2, 4));
  const WorkerKey a = run.JoinAndRegister();
  run.Next(a);
  run.Next(a, 1);
  EXPECT_TRUE(run.Next(a, 2).evaluate());
  for (const std::string& name : {std::string("a b"), std::string("x\n"), std::string(),
                                  std::string("Upper"), std::string(65, 'a')}) {
    const absl::Status refused = run.EvaluateWith(a, 1, 0.9, {name});
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << name;
    EXPECT_THAT(refused.message(), HasSubstr("names are 1 to 64"));
  }
  std::vector<std::string> many;
  for (int i = 0; i < 17; ++i) many.push_back("m" + std::to_string(i));
  EXPECT_TRUE(absl::IsInvalidArgument(run.EvaluateWith(a, 1, 0.9, many)));
  EXPECT_EQ(run.core().Status(run.now()).evaluations_size(), 0);
  EXPECT_TRUE(run.EvaluateWith(a, 1, 0.9, {"hit_ratio_10"}).ok());
  const StatusReply status = run.core().Status(run.now());
  ASSERT_EQ(status.evaluations_size(), 1);
  EXPECT_EQ(status.evaluations(0).measures().at("hit_ratio_10"), 0.5);
}

TEST(CoordinatorSegment, TheLastToFinishAnEpochEvaluatesIt) {
  CoordinatorFixture run(CoordinatorConfig(2, 2, 4));
  const WorkerKey a = run.JoinAndRegister(), b = run.JoinAndRegister();
  run.Next(a);
  run.Next(b);
  EXPECT_FALSE(run.Next(a, 1).evaluate());  // the other worker has not finished
  const NextSegmentReply last = run.Next(b, 1);
  EXPECT_TRUE(last.evaluate());
  EXPECT_EQ(last.segment().id(), 2u);
  EXPECT_FALSE(run.Next(a, 1).evaluate());  // only one worker evaluates
  const std::vector<uint32_t> both = {a.worker(), b.worker()};
  EXPECT_THAT(run.core().NamesOfTraining(both), ElementsAre(HasSubstr("worker 0 (")));
  // The evaluator dies before its report: the other worker takes over at its next request.
  run.Leave(b);
  EXPECT_TRUE(run.Next(a, 2).evaluate());
}

// A worker whose share of an epoch ends early may finish the next epoch before the other asks.
TEST(CoordinatorSegment, TheLastToFinishEvaluatesAlsoIfTheOtherFinishedMore) {
  CoordinatorFixture run(CoordinatorConfig(2, 2, 4));
  const WorkerKey a = run.JoinAndRegister(), b = run.JoinAndRegister();
  run.Next(a);
  run.Next(b);
  EXPECT_FALSE(run.Next(a, 1).evaluate());
  EXPECT_FALSE(run.Next(a, 2).evaluate());
  const NextSegmentReply last = run.Next(b, 1);
  EXPECT_TRUE(last.evaluate());
  EXPECT_EQ(last.evaluate_epoch(), 1u);
}

// Where nobody waits, the slow worker would fall further behind with each evaluation.
TEST(CoordinatorSegment, OfAnUnboundedRunTheFastestEvaluatesWhatAllHaveFinished) {
  Config config = CoordinatorConfig(2, 3, 4);
  config.mutable_consistency()->set_staleness(-1);
  CoordinatorFixture run(config);
  const WorkerKey fast = run.JoinAndRegister(), slow = run.JoinAndRegister();
  run.Next(fast);
  run.Next(slow);
  for (uint64_t segment = 1; segment <= 3; ++segment) {
    EXPECT_FALSE(run.Next(fast, segment).evaluate());
  }
  std::vector<double> evaluated;
  for (uint64_t segment = 1; segment <= 3; ++segment) {
    // At the end both are at the same clock, and the worker that asks evaluates.
    if (segment < 3) {
      EXPECT_FALSE(run.Next(slow, segment).evaluate());
    }
    const WorkerKey asking = segment < 3 ? fast : slow;
    const NextSegmentReply reply = run.Next(asking, 3);
    ASSERT_TRUE(reply.evaluate());
    evaluated.push_back(reply.evaluate_epoch());
    run.Evaluate(asking, reply.evaluate_epoch());
    EXPECT_FALSE(run.Next(asking, 3).evaluate());
  }
  EXPECT_THAT(evaluated, ElementsAre(1, 2, 3));
}

TEST(CoordinatorSegment, ANewcomerMakesTheLastEvaluationWhenTheOthersAreGone) {
  CoordinatorFixture run(CoordinatorConfig(1, 1, 8));
  const WorkerKey a = run.JoinAndRegister();
  run.Next(a);
  EXPECT_TRUE(run.Next(a, 1).evaluate());
  run.Pass(std::chrono::seconds(20));
  run.Tick();  // killed during the evaluation; all its work was reported
  const WorkerKey b = run.JoinAndRegister();
  const NextSegmentReply reply = run.Next(b);
  EXPECT_EQ(reply.kind(), NextSegmentReply::WAIT);
  EXPECT_TRUE(reply.evaluate());
  EXPECT_EQ(reply.evaluate_epoch(), 1u);
  run.Evaluate(b, 1);
  EXPECT_THAT(run.Next(b).reason(), HasSubstr("last checkpoint"));
  run.CheckpointDone(1);
  EXPECT_EQ(run.Next(b).kind(), NextSegmentReply::DONE);
}

TEST(CoordinatorSegment, BatchesThatComeBackAtTheEndAreStillDealt) {
  CoordinatorFixture run(CoordinatorConfig(2, 1, 8));
  const WorkerKey a = run.JoinAndRegister(), b = run.JoinAndRegister();
  run.Next(a);
  run.Next(b);
  run.Beat(b, 1);
  EXPECT_EQ(run.Next(a, 1).reason(), "waiting for the other workers to finish");
  EXPECT_EQ(run.core().Status(run.now()).batches_repeated(), 0u);
  run.Leave(b);
  const NextSegmentReply more = run.Next(a, 1);
  ASSERT_EQ(more.kind(), NextSegmentReply::RUN);
  EXPECT_EQ(more.segment().batches_size(), 3);
  EXPECT_EQ(run.core().Status(run.now()).batches_repeated(), 3u);
  EXPECT_EQ(run.core().Status(run.now()).batches_lost(), 0u);
  EXPECT_THAT(more.segment().workers(), ElementsAre(0));
  EXPECT_TRUE(run.Next(a, 2).evaluate());
}

TEST(CoordinatorSegment, CheckpointsComeAtBoundariesWhenDue) {
  Config config = CoordinatorConfig(2, 4, 2);
  config.mutable_durability()->mutable_checkpoint()->set_epochs(1);
  CoordinatorFixture run(config);
  const WorkerKey a = run.JoinAndRegister(), b = run.JoinAndRegister();
  run.Next(a);
  run.Next(b);
  EXPECT_EQ(run.Next(a, 1).save_state_for(), 0u);
  EXPECT_EQ(run.Next(b, 1).save_state_for(), 0u);
  EXPECT_TRUE(run.Commands<TakeCheckpoint>().empty());
  // The epoch is dealt: the first worker to finish opens the boundary, and both save.
  EXPECT_EQ(run.Next(a, 2).save_state_for(), 1u);
  const auto cuts = run.Commands<TakeCheckpoint>();
  ASSERT_EQ(cuts.size(), 1u);
  EXPECT_EQ(cuts[0].clock, 4u);
  EXPECT_EQ(cuts[0].savers.size(), 2u);
  EXPECT_EQ(run.Next(a, 2).save_state_for(), 1u);  // an answer was lost: the same answer again
  EXPECT_EQ(run.Next(a, 3).save_state_for(), 0u);
  EXPECT_EQ(run.Next(b, 2).save_state_for(), 1u);
  const auto& kept = run.core().checkpoint_under_way();
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->position.clock, 4u);
  EXPECT_TRUE(kept->position.remaining.empty());
  run.CheckpointDone(1);
  EXPECT_FALSE(run.core().checkpoint_under_way().has_value());
  EXPECT_EQ(run.Next(b, 2).save_state_for(), 0u);
}

// Workers report local steps before the exchange that ends them, and the last of them comes to the
// boundary after the checkpoint has begun.
class CountsOfACheckpoint : public testing::Test {
 protected:
  CountsOfACheckpoint() {
    run_.Next(a_);
    run_.Next(b_);
    Report(a_, 4);
    EXPECT_EQ(run_.Next(a_, 1).save_state_for(), 1u);
    Report(a_, 1);  // of the next segment
    Report(b_, 3);
  }
  static Config CheckpointsOften() {
    Config config = CoordinatorConfig(2, 2, 2);
    config.mutable_durability()->mutable_checkpoint()->set_steps(2);
    return config;
  }
  void Report(const WorkerKey& key, uint64_t steps) {
    HeartbeatRequest request;
    *request.mutable_key() = key;
    request.mutable_report()->set_steps(steps);
    EXPECT_TRUE(run_.core().Heartbeat(request, run_.now()).ok());
  }
  const WorkerReport& Total() { return run_.core().checkpoint_under_way()->total; }

  CoordinatorFixture run_{CheckpointsOften()};
  const WorkerKey a_ = run_.JoinAndRegister(), b_ = run_.JoinAndRegister();
};

TEST_F(CountsOfACheckpoint, AreOfAllStepsBeforeItsBoundary) {
  EXPECT_EQ(Total().steps(), 7u);
  Report(b_, 1);
  EXPECT_EQ(run_.Next(b_, 1).save_state_for(), 1u);
  Report(b_, 2);  // of the next segment
  EXPECT_EQ(Total().steps(), 8u);
  EXPECT_FALSE(Total().counts_incomplete());
}

TEST_F(CountsOfACheckpoint, AreIncompleteIfAWorkerDiesBeforeItsBoundary) {
  run_.Leave(a_);
  EXPECT_FALSE(Total().counts_incomplete()) << "past the boundary, and it said good-bye";
  run_.Pass(std::chrono::seconds(11));
  EXPECT_TRUE(Total().counts_incomplete());
}

// Others do its local steps again.
TEST_F(CountsOfACheckpoint, LackTheLocalStepsThatAWorkerDidNotPush) {
  HeartbeatRequest request;
  *request.mutable_key() = b_;
  request.mutable_report()->set_steps(2);
  request.mutable_report()->mutable_unpushed()->set_steps(4);
  EXPECT_TRUE(run_.core().Heartbeat(request, run_.now()).ok());
  EXPECT_EQ(Trained(Total()).steps(), 9u);
  run_.Pass(std::chrono::seconds(11));
  EXPECT_EQ(Trained(Total()).steps(), 5u);
  EXPECT_EQ(Trained(run_.core().Status(run_.now()).total()).steps(), 6u);
}

TEST_F(CountsOfACheckpoint, AreIncompleteIfAWorkerLeavesInHaste) {
  LeaveRequest request;
  *request.mutable_key() = b_;
  request.set_unreported(true);
  Effects effects;
  EXPECT_TRUE(run_.core().Leave(request, run_.now(), &effects).ok());
  EXPECT_TRUE(Total().counts_incomplete());
}

TEST_F(CountsOfACheckpoint, AreIncompleteIfTheServerStartsAgain) {
  CoordinatorCore again({.config = CheckpointsOften(), .resume = {}, .checkpoint = {}});
  again.Restore(run_.core().Save(run_.now()), run_.now());
  EXPECT_EQ(again.checkpoint_under_way()->total.steps(), 7u);
  EXPECT_TRUE(again.checkpoint_under_way()->total.counts_incomplete());
}

TEST(CoordinatorSegment, CheckpointsByStepsAndOnRequest) {
  Config config = CoordinatorConfig(1, 10, 2);
  config.mutable_durability()->mutable_checkpoint()->set_steps(6);
  CoordinatorFixture run(config);
  EXPECT_FALSE(run.core().RequestCheckpoint().ok());  // there is nothing to save yet
  const WorkerKey a = run.JoinAndRegister();
  run.Next(a);
  run.Next(a, 1);
  EXPECT_EQ(*run.core().RequestCheckpoint("mine"), 1u);
  EXPECT_EQ(*run.core().RequestCheckpoint(), 1u);
  EXPECT_FALSE(run.core().RequestCheckpoint("yours").ok());  // a checkpoint has one name
  EXPECT_EQ(run.Next(a, 2).save_state_for(), 1u);
  run.CheckpointDone(1, absl::ResourceExhaustedError("disk full"));
  EXPECT_THAT(run.News(), HasSubstr("checkpoint 1 failed: disk full"));
  EXPECT_EQ(run.Next(a, 3).save_state_for(), 0u);
  EXPECT_EQ(run.Next(a, 4).save_state_for(), 0u);
  EXPECT_EQ(run.Next(a, 5).save_state_for(), 2u);
  // While a checkpoint is under way, no other begins.
  EXPECT_EQ(*run.core().RequestCheckpoint(), 3u);
  EXPECT_EQ(run.Next(a, 6).save_state_for(), 0u);
  run.CheckpointDone(1);  // late news of an old checkpoint
  EXPECT_TRUE(run.core().checkpoint_under_way().has_value());
  run.CheckpointDone(2);
  EXPECT_EQ(run.Next(a, 7).save_state_for(), 3u);
}

TEST(CoordinatorSegment, ACheckpointPromisesWhatADyingWorkerLeavesUndone) {
  Config config = CoordinatorConfig(2, 1, 2);
  config.mutable_durability()->mutable_checkpoint()->set_steps(2);
  CoordinatorFixture run(config);
  const WorkerKey a = run.JoinAndRegister(), b = run.JoinAndRegister();
  run.Next(a);
  const NextSegmentReply first = run.Next(b);
  EXPECT_EQ(run.Next(a, 1).save_state_for(), 1u);
  run.Beat(b, 1);
  run.Leave(b);  // one of its two batches is not in the cut
  EXPECT_THAT(Batches(run.core().checkpoint_under_way()->position.remaining),
              UnorderedElementsAre(4, 5, 6, 7, first.segment().batches(1)));
}

TEST(CoordinatorSegment, DrainingEndsAtTheBoundaryWithACheckpoint) {
  CoordinatorFixture run(CoordinatorConfig(2, 100, 2));
  const WorkerKey a = run.JoinAndRegister(), b = run.JoinAndRegister();
  run.Next(a);
  run.Next(b);
  run.Drain("Ctrl-C");
  EXPECT_EQ(run.core().state(), StatusReply::DRAINING);
  HeartbeatRequest beat;
  *beat.mutable_key() = a;
  EXPECT_TRUE(run.core().Heartbeat(beat, run.now())->drain());
  EXPECT_EQ(run.Next(a, 1).kind(), NextSegmentReply::WAIT);
  const NextSegmentReply last = run.Next(b, 1);
  EXPECT_EQ(last.kind(), NextSegmentReply::WAIT);
  EXPECT_TRUE(last.evaluate());
  EXPECT_GT(last.evaluate_epoch(), 0.0);
  EXPECT_LT(last.evaluate_epoch(), 1.0);  // the epoch was not finished
  run.Evaluate(b, last.evaluate_epoch());
  EXPECT_EQ(run.Next(a, 1).save_state_for(), 1u);
  EXPECT_EQ(run.Next(b, 1).save_state_for(), 1u);
  run.CheckpointDone(1);
  const NextSegmentReply done = run.Next(a, 1);
  EXPECT_EQ(done.kind(), NextSegmentReply::DONE);
  EXPECT_EQ(done.reason(), "Ctrl-C");
  EXPECT_EQ(run.core().state(), StatusReply::FINISHED);
  EXPECT_EQ(run.Next(b, 1).kind(), NextSegmentReply::DONE);
}

// Acknowledged updates must not be lost because no worker is left to ask for the next segment.
TEST(CoordinatorSegment, DrainingWithNobodyLeftEndsTheRunWithACheckpoint) {
  for (const bool failed : {false, true}) {
    for (const absl::Status& written :
         {absl::OkStatus(), absl::ResourceExhaustedError("the disk is full")}) {
      CoordinatorFixture run(CoordinatorConfig(1, 100, 2));
      const WorkerKey a = run.JoinAndRegister();
      run.Next(a);
      run.Drain("asked to", failed);
      run.Leave(a);
      run.Tick();
      run.Tick();
      EXPECT_FALSE(run.core().over());
      const auto cuts = run.Commands<TakeCheckpoint>();
      ASSERT_EQ(cuts.size(), 1u);
      EXPECT_EQ(cuts[0].clock, 2u);
      EXPECT_TRUE(cuts[0].savers.empty());
      run.CheckpointDone(cuts[0].id, written);
      run.Tick();
      EXPECT_EQ(run.core().state(), failed ? StatusReply::FAILED : StatusReply::FINISHED);
    }
  }
}

// Whoever resumes gets the checkpoint before. If there is none, a late one is better than nothing.
TEST(CoordinatorSegment, TrainingThatDivergedEndsWithoutACheckpoint) {
  const Config config = CoordinatorConfig(2, 100, 8);
  for (const bool earlier : {false, true}) {
    for (const bool went_on : {false, true}) {
      CoordinatorFixture run(config);
      const WorkerKey a = run.JoinAndRegister(), b = run.JoinAndRegister();
      run.Next(a);
      run.Next(b);
      if (earlier) {
        ASSERT_TRUE(run.core().RequestCheckpoint().ok());
        run.Next(a, 1);
        run.Next(b, 1);
        run.CheckpointDone(1);
      }
      EXPECT_EQ(run.Commands<TakeCheckpoint>().size(), earlier ? 1u : 0u);
      run.Fail(a, DivergedText(config));
      if (went_on) run.Beat(b, earlier ? 6 : 2);
      run.Fail(b, went_on ? "its data is gone" : DivergedText(config));
      run.Drain("asked to");
      run.Tick();
      const bool ends_without = earlier && !went_on;
      EXPECT_EQ(run.core().over(), ends_without);
      EXPECT_EQ(run.Commands<TakeCheckpoint>().size(), ends_without ? 0u : 1u);
      EXPECT_EQ(run.News().find("its end has no checkpoint") != std::string::npos, ends_without);
    }
  }
}

TEST(CoordinatorSegment, DrainingWithNobodyLeftBeforeTheBeginningEndsAtOnce) {
  CoordinatorFixture run(CoordinatorConfig(2, 100, 2));
  run.Drain("asked to");
  run.Tick();
  EXPECT_TRUE(run.core().over());
}

TEST(CoordinatorSegment, DrainingBeforeTheBeginningLetsTheWaitingGo) {
  CoordinatorFixture run(CoordinatorConfig(2, 1, 2));
  const WorkerKey a = run.JoinAndRegister();
  EXPECT_EQ(run.Next(a).kind(), NextSegmentReply::WAIT);
  run.Drain("changed my mind");
  EXPECT_EQ(run.Next(a).kind(), NextSegmentReply::DONE);
  EXPECT_TRUE(run.Commands<TakeCheckpoint>().empty());
}

TEST(CoordinatorSegment, ALearningRateIsCheckedVersionedAndPassedOn) {
  CoordinatorFixture run(CoordinatorConfig(1, 1, 2));
  Effects effects;
  SetHyperRequest request;
  request.set_set_learning_rate(true);
  for (const double bad : {0.0, -1.0, 1e9, std::numeric_limits<double>::quiet_NaN()}) {
    request.mutable_hyper()->set_learning_rate(bad);
    EXPECT_FALSE(run.core().SetHyper(request, &effects).ok()) << bad;
  }
  EXPECT_TRUE(effects.commands.empty());
  request.mutable_hyper()->set_learning_rate(0.125);
  const auto changed = run.core().SetHyper(request, &effects);
  ASSERT_TRUE(changed.ok());
  EXPECT_EQ(changed->version(), 2u);
  EXPECT_EQ(changed->learning_rate(), 0.125);
  ASSERT_EQ(effects.commands.size(), 1u);
  EXPECT_EQ(std::get<ChangeHyper>(effects.commands[0]).hyper.learning_rate(), 0.125);
  const WorkerKey a = run.Join();
  const auto registered = run.core().Register(run.Registration(a), {}, run.now(), &effects);
  EXPECT_EQ(registered->hyper().version(), 2u);
}

CoordinatorOptions Resuming(const Config& config, uint32_t epoch, uint64_t clock,
                            const std::vector<uint32_t>& remaining) {
  CoordinatorOptions options;
  options.config = config;
  options.resume.emplace();
  options.resume->checkpoint = 5;
  options.resume->position = {epoch, clock, {}};
  for (const uint32_t batch : remaining) options.resume->position.remaining.Add(batch);
  options.resume->hyper.set_version(3);
  options.resume->hyper.set_learning_rate(0.0625);
  options.resume->evaluations.emplace_back().set_epoch(1);
  return options;
}

TEST(CoordinatorSegment, ResumesWhereTheCheckpointStands) {
  CoordinatorFixture run(Resuming(CoordinatorConfig(1, 2, 4), 1, 10, {6, 7}));
  const WorkerKey a = run.JoinAndRegister();
  EXPECT_EQ(run.Commands<InstallModel>()[0].hyper.learning_rate(), 0.0625);
  const NextSegmentReply first = run.Next(a);
  EXPECT_TRUE(first.load_state());
  EXPECT_EQ(first.segment().first_clock(), 10u);
  EXPECT_EQ(first.segment().epoch(), 1u);
  EXPECT_THAT(first.segment().batches(), ElementsAre(6, 7));
  EXPECT_TRUE(run.Next(a, 1).evaluate());
  run.Evaluate(a, 2);
  EXPECT_EQ(run.Next(a, 1).save_state_for(), 6u);  // numbers go on
  EXPECT_EQ(run.core().Status(run.now()).evaluations_size(), 2);
}

TEST(CoordinatorSegment, AFinishedRunThatIsResumedEndsForEveryWorker) {
  CoordinatorFixture run(Resuming(CoordinatorConfig(2, 2, 4), 1, 16, {}));
  const WorkerKey a = run.JoinAndRegister();
  EXPECT_EQ(run.Next(a).kind(), NextSegmentReply::WAIT);
  const WorkerKey b = run.JoinAndRegister();
  EXPECT_EQ(run.Next(b).kind(), NextSegmentReply::DONE);
  run.Leave(b);
  EXPECT_EQ(run.Next(a).kind(), NextSegmentReply::DONE);
}

TEST(CoordinatorQuarantine, TheOthersGoOnAndTheLastEndsTheRun) {
  CoordinatorFixture run(CoordinatorConfig(2, 3, 4));
  const WorkerKey a = run.JoinAndRegister(), b = run.JoinAndRegister();
  run.Next(a);
  run.Commands<RemoveWorker>();
  Effects effects;
  WorkerKey older = a;
  older.set_incarnation(a.incarnation() - 1);
  run.core().Quarantine({older, "of one that is gone"}, &effects);
  EXPECT_TRUE(effects.commands.empty());

  run.core().Quarantine({a, "3 bad pushes"}, &effects);
  EXPECT_EQ(effects.commands.size(), 1u);
  EXPECT_EQ(run.core().state(), StatusReply::TRAINING);
  const StatusReply status = run.core().Status(run.now());
  EXPECT_FALSE(status.workers(0).live());
  EXPECT_EQ(status.workers(0).note(), "quarantined: 3 bad pushes");

  run.core().Quarantine({b, "4 bad pushes"}, &effects);
  run.Tick();
  run.CheckpointDone(1);
  run.Tick();
  EXPECT_EQ(run.core().state(), StatusReply::FAILED);
  EXPECT_THAT(run.core().Status(run.now()).detail(),
              testing::StartsWith("no worker is left that sends sound updates; worker 1: 4 bad"));
}

TEST(CoordinatorQuarantine, NumbersThatAreNotFiniteMeanThatTrainingDiverged) {
  CoordinatorFixture run(CoordinatorConfig(1, 3, 4));
  const WorkerKey only = run.JoinAndRegister();
  run.Next(only);
  Effects effects;
  run.core().Quarantine({only, "3 bad pushes", /*not_finite=*/true}, &effects);
  EXPECT_THAT(run.core().Status(run.now()).detail(),
              testing::AllOf(testing::StartsWith("training diverged: lower the learning rate"),
                             testing::HasSubstr("worker 0: 3 bad pushes")));
  // So the run's end makes no room for a checkpoint of it.
  EXPECT_TRUE(SaysDiverged(run.core().Status(run.now()).workers(0).note()));
}

}  // namespace
}  // namespace psgd
