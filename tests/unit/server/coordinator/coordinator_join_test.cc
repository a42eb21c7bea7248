// Members: joining, registering, leases, leaving.
#include "tests/unit/server/coordinator/coordinator_fixture.h"

namespace psgd {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

TEST(CoordinatorJoin, TellsTheWorkerWhatItNeeds) {
  CoordinatorFixture run(CoordinatorConfig(1, 1, 4));
  JoinRequest request;
  request.set_name("host-17");
  Effects effects;
  const auto reply = run.core().Join(request, run.now(), &effects);
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->run_name(), "test-run");
  EXPECT_EQ(reply->lease_ms(), 10000);
  EXPECT_EQ(reply->config().cluster().segment(), 4);
  ASSERT_EQ(effects.commands.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<AdmitWorker>(effects.commands[0]));
}

// A worker repeats a request if the first answer was lost.
TEST(CoordinatorJoin, ARequestThatIsAskedAgainIsTheSameMember) {
  CoordinatorFixture run(CoordinatorConfig(1, 1, 4));
  JoinRequest request;
  request.set_name("host-17");
  request.set_attempt(91);
  Effects effects;
  const auto first = run.core().Join(request, run.now(), &effects);
  const auto again = run.core().Join(request, run.now(), &effects);
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_EQ(again->key().worker(), first->key().worker());
  EXPECT_EQ(again->key().incarnation(), first->key().incarnation());
  EXPECT_EQ(effects.commands.size(), 1u);
  request.set_attempt(92);
  const auto other = run.core().Join(request, run.now(), &effects);
  ASSERT_TRUE(other.ok());
  EXPECT_NE(other->key().worker(), first->key().worker());
  EXPECT_EQ(effects.commands.size(), 2u);
}

// systemd starts a worker that died again under its name. The others need not wait for the lease.
TEST(CoordinatorJoin, ANewProcessTakesThePlaceOfTheEarlierOneOfItsName) {
  CoordinatorFixture run(CoordinatorConfig(2, 1, 4));
  const auto join = [&](const std::string& name, bool replaces, uint64_t attempt) {
    JoinRequest request;
    request.set_name(name);
    request.set_replaces(replaces);
    request.set_attempt(attempt);
    Effects effects;
    const WorkerKey key = run.core().Join(request, run.now(), &effects)->key();
    return std::pair(key, std::move(effects));
  };
  join("node-1", true, 1);
  const WorkerKey second = join("node-2", true, 2).first;
  EXPECT_EQ(second.worker(), 1u);
  const auto [key, effects] = join("node-2", true, 3);
  EXPECT_EQ(key.worker(), 1u);
  EXPECT_GT(key.incarnation(), second.incarnation());
  ASSERT_EQ(effects.commands.size(), 2u);
  EXPECT_EQ(std::get<RemoveWorker>(effects.commands[0]).key.incarnation(), second.incarnation());
  EXPECT_EQ(std::get<AdmitWorker>(effects.commands[1]).key.incarnation(), key.incarnation());
  HeartbeatRequest heartbeat;
  *heartbeat.mutable_key() = second;
  EXPECT_THAT(Text(run.core().Heartbeat(heartbeat, run.now()).status()),
              AllOf(HasSubstr("was replaced"), HasSubstr("--name")));
  // The same process asks again, and a name may belong to several workers.
  EXPECT_TRUE(join("node-2", true, 3).second.commands.empty());
  EXPECT_EQ(join("node-2", false, 4).first.worker(), 2u);
}

TEST(CoordinatorJoin, AWorkerMayWantANumberOfTheRun) {
  CoordinatorFixture run(CoordinatorConfig(2, 1, 4));
  Effects effects;
  const auto join = [&](uint32_t wanted) {
    JoinRequest request;
    request.set_name("host-17");
    request.set_wanted(wanted);
    return run.core().Join(request, run.now(), &effects)->key().worker();
  };
  EXPECT_EQ(join(2), 1u);
  EXPECT_EQ(join(3), 0u);  // the run has two
  EXPECT_EQ(join(2), 2u);
}

// A model that exceeds the servers' memory is refused, and the run then takes another model.
TEST(CoordinatorJoin, AModelThatDoesNotFitIsRefused) {
  CoordinatorOptions options;
  options.config = CoordinatorConfig(1, 1, 4);
  options.config.mutable_optimizer()->mutable_sgd()->set_momentum(0.9);
  options.memory = 1000;
  CoordinatorFixture run(options);
  const WorkerKey worker = run.Join();
  Effects effects;
  RegisterRequest request = run.Registration(worker);
  request.mutable_model()->mutable_parameters(0)->set_shape(
      0, 126);  // weights and momentum: 1,008 bytes
  const absl::Status refused = run.core().Register(request, {}, run.now(), &effects).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Text(refused), HasSubstr("126 weights"));
  EXPECT_THAT(Text(refused), HasSubstr("cluster.servers"));
  EXPECT_TRUE(effects.commands.empty());
  EXPECT_TRUE(run.core().Register(run.Registration(worker), {}, run.now(), &effects).ok());
}

TEST(CoordinatorJoin, TheFirstRatesAreThoseOfTheOptimizer) {
  std::vector<OptimizerConfig> optimizers(4);
  optimizers[0].mutable_adamw()->set_weight_decay(0.125);
  optimizers[0].mutable_adamw()->set_learning_rate(0.25);
  optimizers[1].mutable_lars()->set_weight_decay(0.125);
  optimizers[1].mutable_lars()->set_learning_rate(0.25);
  optimizers[2].mutable_lamb()->set_weight_decay(0.125);
  optimizers[2].mutable_lamb()->set_learning_rate(0.25);
  optimizers[3].mutable_delayed_nesterov()->set_learning_rate(0.25);  // has no decay
  for (const OptimizerConfig& optimizer : optimizers) {
    Config config = CoordinatorConfig(1, 1, 4);
    *config.mutable_optimizer() = optimizer;
    CoordinatorFixture run(config);
    run.JoinAndRegister();
    const HyperParameters hyper = run.Commands<InstallModel>()[0].hyper;
    EXPECT_EQ(hyper.learning_rate(), 0.25) << optimizer.ShortDebugString();
    EXPECT_EQ(hyper.weight_decay(), optimizer.has_delayed_nesterov() ? 0 : 0.125)
        << optimizer.ShortDebugString();
  }
}

TEST(CoordinatorJoin, AllWorkersPrepareTheirDataAlike) {
  CoordinatorFixture run(CoordinatorConfig(3, 1, 4));
  Effects effects;
  const auto registers = [&](double mean) {
    RegisterRequest request = run.Registration(run.Join());
    Preparation& preparation = *request.mutable_model()->mutable_preparation();
    preparation.mutable_shape()->set_width(2);
    preparation.add_columns()->mutable_scale()->set_mean(mean);
    return run.core().Register(request, {"a", "b"}, run.now(), &effects).status();
  };
  EXPECT_TRUE(registers(4).ok());
  EXPECT_EQ(run.core().model()->preparation().columns(0).scale().mean(), 4);
  const InstallModel* install = nullptr;
  for (const ShardCommand& command : effects.commands) {
    if (const auto* one = std::get_if<InstallModel>(&command)) install = one;
  }
  ASSERT_NE(install, nullptr);
  EXPECT_FALSE(install->model->has_preparation()) << "shards need none";
  EXPECT_TRUE(registers(4).ok());
  EXPECT_THAT(
      Text(registers(5)),
      AllOf(HasSubstr("its data have other scales, categories or classes (data.path: is it"),
            HasSubstr("a column of equal numbers: an earlier version")));
  // As a program's, which brings its own data.
  EXPECT_TRUE(run.core().Register(run.Registration(run.Join()), {}, run.now(), &effects).ok());
}

// As in a run that goes on from a checkpoint of an earlier version.
TEST(CoordinatorJoin, AModelMayHaveNoPreparation) {
  CoordinatorFixture run(CoordinatorConfig(2, 1, 4));
  run.JoinAndRegister();
  RegisterRequest request = run.Registration(run.Join());
  request.mutable_model()->mutable_preparation()->mutable_shape()->set_width(2);
  Effects effects;
  EXPECT_TRUE(run.core().Register(request, {}, run.now(), &effects).ok());
  EXPECT_EQ(run.core().model()->preparation().shape().width(), 2) << "the next checkpoint keeps it";
}

TEST(CoordinatorJoin, TheFirstRegistrationFixesTheModel) {
  CoordinatorFixture run(CoordinatorConfig(2, 1, 4));
  const WorkerKey first = run.JoinAndRegister(), second = run.Join();
  ASSERT_EQ(run.Commands<InstallModel>().size(), 1u);
  EXPECT_THAT(run.core().placement()->endpoints(), ElementsAre("a", "b"));
  Effects effects;
  RegisterRequest other = run.Registration(second);
  other.mutable_model()->mutable_parameters(0)->set_shape(0, 99);
  EXPECT_THAT(Text(run.core().Register(other, {}, run.now(), &effects).status()),
              HasSubstr("built another model than the run's: w is 99, not 100"));
  other = run.Registration(second);
  ParameterSpec* scale = other.mutable_model()->add_parameters();
  scale->set_name("scale");
  scale->add_shape(1);
  EXPECT_THAT(Text(run.core().Register(other, {}, run.now(), &effects).status()),
              HasSubstr("built another model than the run's: it also trains scale;"));
  other = run.Registration(second);
  other.mutable_model()->mutable_parameters()->RemoveLast();
  EXPECT_THAT(Text(run.core().Register(other, {}, run.now(), &effects).status()),
              HasSubstr("built another model than the run's: it does not train "));
  other = run.Registration(second);
  other.set_batches_per_epoch(7);
  EXPECT_THAT(Text(run.core().Register(other, {}, run.now(), &effects).status()),
              HasSubstr("7 batches an epoch, where the run has 800 and 8"));
  // The last batch may leave out the difference.
  other = run.Registration(second);
  other.set_train_samples(801);
  EXPECT_THAT(Text(run.core().Register(other, {}, run.now(), &effects).status()),
              HasSubstr("has 801 samples to train on, 8 batches an epoch, where the run has 800"));
  // Repeated, as after a lost answer: the same answer, without new commands.
  EXPECT_TRUE(run.core().Register(run.Registration(first), {}, run.now(), &effects).ok());
  EXPECT_TRUE(effects.commands.empty());
}

TEST(CoordinatorJoin, RefusesModelsAndDataThatCannotBe) {
  for (const uint64_t batches : {uint64_t{0}, uint64_t{1} << 33}) {
    CoordinatorFixture run(CoordinatorConfig(1, 1, 4));
    RegisterRequest request = run.Registration(run.Join());
    request.set_batches_per_epoch(batches);
    Effects effects;
    EXPECT_TRUE(
        absl::IsInvalidArgument(run.core().Register(request, {}, run.now(), &effects).status()));
    EXPECT_EQ(run.core().model(), nullptr);
  }
  CoordinatorFixture run(CoordinatorConfig(1, 1, 4));
  RegisterRequest request = run.Registration(run.Join());
  request.mutable_model()->mutable_parameters(0)->add_shape(INT64_MAX);
  Effects effects;
  EXPECT_FALSE(run.core().Register(request, {}, run.now(), &effects).ok());
  EXPECT_EQ(run.core().model(), nullptr);
}

TEST(CoordinatorJoin, WaitsForTheWorkersThatAreWanted) {
  CoordinatorFixture run(CoordinatorConfig(2, 1, 4));
  const WorkerKey a = run.JoinAndRegister();
  const NextSegmentReply alone = run.Next(a);
  EXPECT_EQ(alone.kind(), NextSegmentReply::WAIT);
  EXPECT_THAT(alone.reason(), HasSubstr("1 of 2"));
  EXPECT_GT(alone.wait_ms(), 0);
  EXPECT_EQ(run.core().state(), StatusReply::WAITING);
  const WorkerKey b = run.Join();
  EXPECT_TRUE(absl::IsFailedPrecondition(run.NextStatus(b, 0)));  // not registered
  EXPECT_EQ(run.Next(a).kind(), NextSegmentReply::WAIT);
  Effects effects;
  ASSERT_TRUE(run.core().Register(run.Registration(b), {}, run.now(), &effects).ok());
  const NextSegmentReply both = run.Next(a);
  ASSERT_EQ(both.kind(), NextSegmentReply::RUN);
  EXPECT_THAT(both.segment().workers(), ElementsAre(0));  // the worker is told only about itself
  EXPECT_THAT(both.segment().batches(), ElementsAre(0, 2, 4, 6));
  EXPECT_EQ(run.core().state(), StatusReply::TRAINING);
  const auto begun = run.Commands<BeginSegment>();
  ASSERT_EQ(begun.size(), 1u);
  EXPECT_THAT(begun[0].segment.workers(), ElementsAre(0, 1));
}

TEST(CoordinatorJoin, AskingAgainGetsTheSameSegment) {
  CoordinatorFixture run(CoordinatorConfig(1, 1, 4));
  const WorkerKey a = run.JoinAndRegister();
  EXPECT_EQ(run.Next(a).segment().id(), 1u);
  EXPECT_EQ(run.Next(a).segment().id(), 1u);
  EXPECT_EQ(run.Next(a, 1).segment().id(), 2u);
  EXPECT_EQ(run.Next(a, 1).segment().id(), 2u);
  EXPECT_EQ(run.Commands<BeginSegment>().size(), 2u);
  EXPECT_TRUE(absl::IsInvalidArgument(run.NextStatus(a, 77)));
}

TEST(CoordinatorJoin, ALateJoinerTakesPartInTheNextSegment) {
  CoordinatorFixture run(CoordinatorConfig(1, 1, 2));
  const WorkerKey a = run.JoinAndRegister();
  EXPECT_EQ(run.Next(a).segment().id(), 1u);
  const WorkerKey b = run.JoinAndRegister();
  EXPECT_EQ(run.Next(b).kind(), NextSegmentReply::WAIT);
  const NextSegmentReply second = run.Next(a, 1);
  EXPECT_THAT(run.Commands<BeginSegment>().back().segment.workers(), ElementsAre(0, 1));
  EXPECT_EQ(run.Next(b).segment().id(), second.segment().id());
}

TEST(CoordinatorJoin, ALeaseThatRunsOutPutsTheWorkerOut) {
  CoordinatorFixture run(CoordinatorConfig(2, 1, 2));
  const WorkerKey a = run.JoinAndRegister(), b = run.JoinAndRegister();
  run.Next(a);
  run.Next(b);
  run.Pass(std::chrono::seconds(9));
  run.Beat(a, 1);
  run.Pass(std::chrono::seconds(2));
  run.Tick();
  const auto removed = run.Commands<RemoveWorker>();
  ASSERT_EQ(removed.size(), 1u);
  EXPECT_EQ(removed[0].key.worker(), 1u);
  EXPECT_THAT(run.News(), HasSubstr("worker 1 (host) is out: not heard of for 10 s"));
  // The paused process comes back. It is refused, and may join anew.
  HeartbeatRequest beat;
  *beat.mutable_key() = b;
  EXPECT_TRUE(absl::IsPermissionDenied(run.core().Heartbeat(beat, run.now()).status()));
  EXPECT_TRUE(absl::IsPermissionDenied(run.NextStatus(b, 1)));
  const WorkerKey again = run.JoinAndRegister();
  EXPECT_EQ(again.worker(), 1u);
  EXPECT_EQ(again.incarnation(), 2u);
  EXPECT_EQ(run.Next(again).kind(), NextSegmentReply::WAIT);
  // Its undone batches are dealt in the next segment: of 8 batches 4 were dealt, 2 came back.
  EXPECT_EQ(run.Next(a, 1).segment().batches_size(), 2);
  EXPECT_EQ(run.Next(a, 2).segment().batches_size(), 1);
  EXPECT_EQ(run.Commands<BeginSegment>().size(), 3u);
}

TEST(CoordinatorJoin, WhenAllDieTheRunWaitsForANewOne) {
  CoordinatorFixture run(CoordinatorConfig(1, 1, 2));
  const WorkerKey a = run.JoinAndRegister();
  run.Next(a);
  run.Leave(a);
  EXPECT_THAT(run.News(), HasSubstr("no worker is left"));
  EXPECT_FALSE(run.core().over());
  const WorkerKey b = run.JoinAndRegister();
  const NextSegmentReply next = run.Next(b);
  ASSERT_EQ(next.kind(), NextSegmentReply::RUN);
  EXPECT_EQ(next.segment().id(), 2u);
  EXPECT_EQ(next.segment().first_clock(), 2u);
}

TEST(CoordinatorJoin, StatusCountsReportsAndNamesWorkers) {
  CoordinatorFixture run(CoordinatorConfig(1, 2, 4));
  const WorkerKey a = run.JoinAndRegister();
  run.Next(a);
  run.Pass(std::chrono::seconds(2));
  HeartbeatRequest beat;
  *beat.mutable_key() = a;
  WorkerReport* report = beat.mutable_report();
  report->set_samples(100);
  report->set_loss_sum(50);
  report->set_correct(80);
  report->set_bytes_pushed(10);
  report->set_clock(3);
  report->set_seconds_data(0.5);
  report->set_seconds_compute(1.0);
  report->set_seconds_encode(0.25);
  report->set_seconds_wait(0.25);
  report->add_pull_staleness(4);
  report->add_pull_staleness(2);
  (*report->mutable_refused())["non_finite"] = 1;
  ASSERT_TRUE(run.core().Heartbeat(beat, run.now()).ok());
  const StatusReply status = run.core().Status(run.now());
  EXPECT_EQ(status.state(), StatusReply::TRAINING);
  EXPECT_DOUBLE_EQ(status.samples_per_second(), 50);
  EXPECT_DOUBLE_EQ(status.train_loss(), 0.5);
  EXPECT_DOUBLE_EQ(status.train_accuracy(), 0.8);
  EXPECT_EQ(status.total().bytes_pushed(), 10u);
  EXPECT_EQ(status.total().refused().at("non_finite"), 1u);
  EXPECT_THAT(status.total().pull_staleness(), ElementsAre(4, 2));
  EXPECT_EQ(status.clock(), 3u);
  EXPECT_EQ(status.epoch(), 3.0 / 8);
  ASSERT_EQ(status.workers_size(), 1);
  EXPECT_EQ(status.workers(0).name(), "host");
  EXPECT_DOUBLE_EQ(status.workers(0).input_stall(), 0.25);
  EXPECT_DOUBLE_EQ(status.seconds(), 2);

  run.Leave(a);
  EXPECT_DOUBLE_EQ(run.core().Status(run.now()).train_loss(), 0.5) << "that of the last report";
  EXPECT_DOUBLE_EQ(run.core().Status(run.now()).train_accuracy(), 0.8) << "likewise";
}

TEST(CoordinatorJoin, TheWaitForTheFirstWorkersIsNoTraining) {
  CoordinatorFixture run(CoordinatorConfig(2, 2, 4));
  const WorkerKey a = run.JoinAndRegister();
  EXPECT_EQ(run.Next(a).kind(), NextSegmentReply::WAIT);
  run.Pass(std::chrono::milliseconds(500));
  EXPECT_EQ(run.core().Status(run.now()).seconds(), 0);
  const WorkerKey b = run.JoinAndRegister();
  run.Pass(std::chrono::milliseconds(500));
  EXPECT_EQ(run.Next(b).kind(), NextSegmentReply::RUN);
  run.Pass(std::chrono::milliseconds(250));
  EXPECT_EQ(run.Next(a).kind(), NextSegmentReply::RUN);
  EXPECT_DOUBLE_EQ(run.core().Status(run.now()).seconds(), 0.25);
}

TEST(CoordinatorJoin, AHostileHistogramTakesNoMemory) {
  CoordinatorFixture run(CoordinatorConfig(1, 1, 4));
  HeartbeatRequest beat;
  *beat.mutable_key() = run.JoinAndRegister();
  for (int i = 0; i < 100000; ++i) beat.mutable_report()->add_pull_staleness(1);
  ASSERT_TRUE(run.core().Heartbeat(beat, run.now()).ok());
  EXPECT_LE(run.core().Status(run.now()).total().pull_staleness_size(),
            static_cast<int>(CountHistogram::kLargest + 1));
}

}  // namespace
}  // namespace psgd
