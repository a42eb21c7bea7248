// Local steps with the real programs: workers that train by themselves between two exchanges.
#include <signal.h>

#include <cstdlib>

#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::HasSubstr;

class LocalStepsRun : public RunTest {
 protected:
  // Runs the small config with local steps, to its end.
  void Train(const std::string& run, const std::vector<std::string>& sets) const {
    const Ended ended = RunSmall(run, Sets(Base() + sets));
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(Summary(run)["status"], "finished");
    EXPECT_EQ(Summary(run)["rejected"], Json::object());
  }
  static std::vector<std::string> Base() {
    return {"local.steps=8", "local.optimizer={sgd: {learning_rate: 0.1, momentum: 0.9}}",
            "train.epochs=6"};
  }
  double Number(const std::string& run, const char* key) const {
    return Summary(run)[key].get<double>();
  }
};

// One worker whose shards take the mean of one: as plain training with the same optimizer there.
TEST_F(LocalStepsRun, OfOneWorkerAreItsOptimizersSteps) {
  const std::vector<std::string> one = {"cluster.workers=1", "train.epochs=2"};
  Train("local", one + std::vector<std::string>{"optimizer=worker"});
  const Ended plain = RunSmall(
      "plain",
      Sets(one + std::vector<std::string>{"optimizer={sgd: {learning_rate: 0.1, momentum: 0.9}}"}));
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_NEAR(Losses("local").back(), Losses("plain").back(), 1e-4);
  EXPECT_EQ(Number("local", "steps"), Number("plain", "steps"));
  EXPECT_LT(8 * Number("local", "bytes_pushed"), 1.3 * Number("plain", "bytes_pushed"));
  EXPECT_LT(Number("local", "bytes_pulled"), 0.5 * Number("plain", "bytes_pulled"));
}

struct Method {
  const char* name;
  std::vector<std::string> sets;
};
class Methods : public LocalStepsRun, public testing::WithParamInterface<Method> {};

// The result depends on nothing but the config, and a run that was stopped and resumed goes on.
TEST_P(Methods, LearnAndRepeatTheirBits) {
  Train("first", GetParam().sets);
  EXPECT_GT(Number("first", "test_accuracy"), 0.85);
  Train("second", GetParam().sets);
  EXPECT_TRUE(Weights("first") == Weights("second"));
}

TEST_P(Methods, GoOnFromACheckpoint) {
  std::vector<std::string> sets = Sets(Base() + GetParam().sets);
  Process run(PsRun("run", sets + Sets({"train.epochs=100000"})));
  ASSERT_TRUE(run.WaitFor("epoch 2/")) << run.Err();
  run.Signal(SIGINT);
  ASSERT_EQ(run.Wait().code, 3) << run.Err();
  const double done = Number("run", "epochs"), repeated = Number("run", "batches_repeated");
  const Ended ended =
      RunProgram(std::vector<std::string>{"ps-run", "--resume", Path("run")} +
                 Sets({"train.epochs=" + std::to_string(static_cast<int>(done) + 3)}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, testing::Not(HasSubstr("begins anew")));
  EXPECT_GT(Number("run", "test_accuracy"), 0.85);
  // Without the steps that were dropped: an epoch has 64 batches.
  EXPECT_EQ(Number("run", "steps"), 64 * Number("run", "epochs"));
  EXPECT_GE(Number("run", "batches_repeated"), repeated);
  EXPECT_EQ(RunProgram({"ps-ctl", "verify", Path("run")}).code, 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, Methods,
    testing::Values(
        Method{"Mean", {}},
        Method{"OuterNesterov",
               {"optimizer={sgd: {learning_rate: 0.7, momentum: 0.9, nesterov: true}}",
                "local.optimizer={adamw: {learning_rate: 0.003}}",
                "local.schedule={warmup: 8 steps, cosine: {}}"}},
        Method{"DelayedNesterov",
               {"optimizer={delayed_nesterov: {learning_rate: 0.7, momentum: 0.5}}"}},
        Method{"ShardsLars", {"optimizer={lars: {learning_rate: 1, momentum: 0.5, trust: 0.05}}"}},
        Method{"ShardsLamb", {"optimizer={lamb: {learning_rate: 0.02}}"}},
        Method{"Lars", {"local.optimizer={lars: {learning_rate: 1, trust: 0.002}}"}},
        Method{"Lamb", {"local.optimizer={lamb: {learning_rate: 0.01}}"}},
        Method{"Muon", {"local.optimizer={muon: {learning_rate: 0.003}}"}},
        Method{"Fragments",
               {"local.fragments=4", "local.delay=1", "local.mix=0.5", "cluster.shards=3",
                "compression={push: {qsgd: {bits: 4}}, pull: {delta: {codec: {qsgd: {bits: 4}}}}, "
                "dense_below: 0}"}},
        Method{"Compressed",
               {"compression={push: {topk: {density: 0.1}}, pull: {delta: {codec: {topk: {density: "
                "0.2}}}}}"}}),
    [](const auto& info) { return info.param.name; });

// Workers that nobody waits for: the shards' momentum, with pushes that count less by their age.
TEST_F(LocalStepsRun, MomentumOfPushesByTheirAgeLearns) {
  Train("run", {"consistency={staleness: unbounded, compensation: scale}",
                "optimizer={sgd: {learning_rate: 0.7, momentum: 0.5}}"});
  EXPECT_GT(Number("run", "test_accuracy"), 0.7) << "a worker that is held up counts less";
}

// The local schedule, dropout and the run's end count the steps from before, too.
TEST_F(LocalStepsRun, AResumedRunHasTheBitsOfOneThatWasNotStopped) {
  const std::vector<std::string> sets = {
      "model.dropout=0.2", "local.schedule={step: {every: 40 steps, factor: 0.3}}",
      "train.max_steps=150", "durability.checkpoint=1 epoch", "durability.keep=9"};
  Train("whole", sets);
  EXPECT_NEAR(Number("whole", "steps"), 2 * 150, 2 * 8);
  std::filesystem::copy(Path("whole"), Path("again"), std::filesystem::copy_options::recursive);
  const Ended ended = RunProgram({"ps-run", "--resume", Path("again"), "--checkpoint", "1"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  for (const char* key : {"steps", "bytes_pushed_dense"})
    EXPECT_EQ(Number("again", key), Number("whole", key)) << key;
  EXPECT_TRUE(Weights("again") == Weights("whole"));
}

TEST_F(LocalStepsRun, AnotherLocalOptimizerBeginsAnewAndIsNoted) {
  Train("run", {"train.epochs=1"});
  const Ended ended =
      RunProgram(std::vector<std::string>{"ps-run", "--resume", Path("run")} +
                 Sets({"train.epochs=2", "local.optimizer={adamw: {learning_rate: 0.003}}"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("the local optimizer begins anew"));
  EXPECT_THAT(Summary("run")["note"].get<std::string>(), HasSubstr("begins anew"));
}

TEST_F(LocalStepsRun, TheLastExchangeCounts) {
  Train("run", {"local.steps=1000", "train.epochs=1", "compression.push=none"});
  EXPECT_GT(Number("run", "bytes_pushed"), Number("run", "bytes_pushed_dense") / 40);
}

TEST_F(LocalStepsRun, WorkersOfDifferentSpeedsTakeDifferentNumbersOfSteps) {
  Process server(std::vector<std::string>{"ps-server", "--config", SmallConfig(), "--port", "0",
                                          "--run-dir", Path("run")} +
                 Sets(Base() + std::vector<std::string>{
                                   "local.steps=auto", "local.most=16", "train.epochs=12",
                                   "cluster.segment=1", "consistency.staleness=unbounded",
                                   "optimizer={delayed_nesterov: {learning_rate: 0.7, momentum: "
                                   "0.5}}"}));
  const std::string address = ServerOf(server);
  const std::vector<std::string> worker = {"ps-worker", "--cpu", "--server", address};
  // Slow enough that their reports come early in the run.
  Process slow(worker + std::vector<std::string>{"--step-delay", "80ms"});
  Process fast(worker + std::vector<std::string>{"--step-delay", "10ms"});
  EXPECT_EQ(slow.Wait().code, 0) << slow.Err();
  EXPECT_EQ(fast.Wait().code, 0) << fast.Err();
  EXPECT_EQ(server.Wait().code, 0) << server.Err();
  EXPECT_GT(Number("run", "test_accuracy"), 0.85);
  const auto steps = [](const Process& worker) {
    const std::string log = worker.Err();
    const std::string words = "done after ";
    const size_t at = log.find(words);
    return at == std::string::npos ? -1 : std::atoi(log.c_str() + at + words.size());
  };
  EXPECT_GT(steps(slow), 0);
  EXPECT_GE(steps(fast), 3 * steps(slow));
  EXPECT_EQ(steps(fast) + steps(slow), Number("run", "steps"));
}

TEST_F(LocalStepsRun, AnEpochThatCutsClocksShortIsTold) {
  const Ended ended = RunSmall("run", Sets({"local={steps: 100, delay: 24}", "train.epochs=1"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  const std::string told =
      "local.steps is 100, and an epoch has 32 batches for each worker: a clock ends with the "
      "epoch, so workers exchange after 32 steps, and a local.delay of 24 lasts 7; set local.steps "
      "to 32 or less, or lower data.batch";
  EXPECT_THAT(ended.err, HasSubstr("ps-run: note: " + told));
  EXPECT_THAT(File("run/server/server.log"), HasSubstr(told));
}

TEST_F(LocalStepsRun, AServerByHandTellsTheConfigsNotesAndUnderPsRunTheyAreToldOnce) {
  const std::string told = "if it is meant for the workers, move it to local.optimizer";
  const std::vector<std::string> sets = Sets({"local.steps=2", "optimizer=adam", "train.epochs=1"});
  Process server(std::vector<std::string>{"ps-server", "--config", SmallConfig(), "--port", "0",
                                          "--run-dir", Path("by-hand")} +
                 sets);
  ServerOf(server);
  EXPECT_THAT(server.Err(), HasSubstr(told));
  const Ended ended = RunSmall("run", sets);
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr(told));
  EXPECT_EQ(ended.err.find(told), ended.err.rfind(told)) << ended.err;
}

// A worker that stands still holds nobody up, and what it pushes later counts.
TEST_F(LocalStepsRun, WithAQuorumTheOthersGoOnWithoutALateWorker) {
  Process server(
      std::vector<std::string>{"ps-server", "--config", SmallConfig(), "--port", "0", "--run-dir",
                               Path("run")} +
      Sets(Base() + std::vector<std::string>{
                        "local.steps=2", "cluster.workers=3", "train.epochs=1",
                        "data.synthetic.train_samples=500000", "cluster.segment=100000",
                        "cluster.lease=60s", "cluster.deadline=120s", "consistency.quorum=2",
                        "consistency.grace=20ms", "consistency.compensation=scale"}));
  const std::string address = ServerOf(server);
  const auto clock = [&] {
    const Json status = StatusOf(address);
    return status.is_object() && !status["shards"].empty()
               ? std::stoull(status["shards"][0]["slowest_clock"].get<std::string>())
               : 0;
  };
  const std::vector<std::string> worker = {"ps-worker", "--cpu", "--server", address};
  Process one(worker), other(worker), late(worker);
  ASSERT_TRUE(Eventually([&] { return clock() > 2; })) << server.Err();
  late.Signal(SIGSTOP);
  const uint64_t before = clock();
  EXPECT_TRUE(Eventually([&] { return clock() > before + 10; })) << "training stands still";
  late.Signal(SIGCONT);
  EXPECT_EQ(one.Wait().code, 0) << one.Err();
  EXPECT_EQ(other.Wait().code, 0) << other.Err();
  EXPECT_EQ(late.Wait().code, 0) << late.Err();
  EXPECT_EQ(server.Wait().code, 0) << server.Err();
  EXPECT_EQ(Number("run", "batches_repeated"), 0);
  EXPECT_GE(Summary("run")["push_staleness"]["max"].get<int>(), 10);
  EXPECT_GT(Number("run", "test_accuracy"), 0.85);
}

TEST_F(LocalStepsRun, MoreFragmentsThanSlicesAreRefused) {
  const Ended ended =
      RunSmall("run", Sets({"local={steps: 100, fragments: 90}", "cluster.shards=1"}));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("local.fragments is 90, and the model has only"));
  EXPECT_THAT(ended.err, HasSubstr("cluster.slice"));
  EXPECT_FALSE(std::filesystem::exists(Path("run"))) << "something was started";
}

}  // namespace
}  // namespace psgd
