// The same seed at staleness 0 gives the same weights, bit for bit: in a second run, and over a
// stop.
#include <signal.h>

#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

class Repeat : public RunTest {
 protected:
  // Dropout and a lossy codec, so that seeds and residuals matter.
  std::vector<std::string> Lossy(const std::string& epochs) const {
    return Sets({"consistency.staleness=0", "compression.push={topk: {density: 0.05}}",
                 "model.dropout=0.1", "train.epochs=" + epochs});
  }

  // Expects that a stopped and resumed run ends like an undisturbed run.
  void ExpectResumesAlike(const std::vector<std::string>& more) {
    Process run(PsRun("stopped", Lossy("60") + more));
    ASSERT_TRUE(run.WaitFor("epoch 2/60")) << run.Err();
    run.Signal(SIGINT);
    const Ended stopped = run.Wait();
    ASSERT_EQ(stopped.code, 3) << stopped.err;
    EXPECT_THAT(stopped.err, HasSubstr("ps-run --resume " + Path("stopped")));
    EXPECT_EQ(Summary("stopped")["status"], "interrupted");
    const double epochs = Summary("stopped")["epochs"];
    EXPECT_LT(epochs, 60) << "it was not stopped";

    // A few epochs after the stop are enough: the schedule is constant.
    const std::string last = std::to_string(static_cast<int>(epochs) + 2);
    const Ended resumed =
        RunProgram({"ps-run", "--resume", Path("stopped"), "--set", "train.epochs=" + last});
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(Summary("stopped")["status"], "finished");
    ASSERT_EQ(RunSmall("whole", Lossy(last) + more).code, 0);
    EXPECT_TRUE(Weights("stopped") == Weights("whole"));
    EXPECT_EQ(Summary("stopped")["steps"], Summary("whole")["steps"]);
    EXPECT_EQ(Summary("stopped")["test_accuracy"], Summary("whole")["test_accuracy"]);
  }
};

TEST_F(Repeat, SameSeedSameWeights) {
  ASSERT_EQ(RunSmall("a", Lossy("3")).code, 0);
  ASSERT_EQ(RunSmall("b", Lossy("3")).code, 0);
  ASSERT_FALSE(Weights("a").empty());
  EXPECT_TRUE(Weights("a") == Weights("b"));
  ASSERT_EQ(RunSmall("c", Lossy("3") + Sets({"seed=2"})).code, 0);
  EXPECT_FALSE(Weights("a") == Weights("c")) << "the seed has no effect";
}

// The order of a shard's answers is chance. Its random rounding must not depend on it.
TEST_F(Repeat, RoundedDifferencesAreTheSameInAnyOrder) {
  for (const char* codec : {"int8", "powersgd"}) {
    const auto sets =
        Lossy("3") + Sets({"compression.dense_below=0", "cluster.workers=2",
                           std::string("compression.pull={delta: {codec: ") + codec + "}}"});
    for (const char* run : {"first", "second", "third"}) {
      ASSERT_EQ(RunSmall(std::string(codec) + run, sets).code, 0);
    }
    const std::string name = codec;
    EXPECT_TRUE(Weights(name + "first") == Weights(name + "second")) << codec;
    EXPECT_TRUE(Weights(name + "first") == Weights(name + "third")) << codec;
  }
}

TEST_F(Repeat, StoppedAndResumedAsIfNothingHappened) { ExpectResumesAlike({}); }

// The encoders of this codec remember more than a residual.
TEST_F(Repeat, MomentumOfTheWorkerIsResumed) {
  ExpectResumesAlike(
      Sets({"compression.push={dgc: {density: 0.02, warmup: 200}}", "optimizer.sgd.momentum=0"}));
}

TEST_F(Repeat, WarmStartsAreResumed) {
  ExpectResumesAlike(Sets({"compression.push={powersgd: {rank: 2}}"}));
}

// Weights are rounded with the same random numbers.
TEST_F(Repeat, RoundedWeightsAreResumed) { ExpectResumesAlike(Sets({"compression.pull=int8"})); }

TEST_F(Repeat, PullingWhatChangedGivesTheSameWeightsForFewerBytes) {
  const std::vector<std::string> sparse =
      Lossy("3") + Sets({"optimizer={sgd: {learning_rate: 0.05, momentum: 0}}",
                         "compression.push={topk: {density: 0.01}}", "compression.dense_below=0"});
  ASSERT_EQ(RunSmall("whole", sparse).code, 0);
  ASSERT_EQ(RunSmall("changes", sparse + Sets({"compression.pull=delta"})).code, 0);
  EXPECT_TRUE(Weights("whole") == Weights("changes"));
  EXPECT_LT(Summary("changes")["bytes_pulled"].get<double>(),
            0.2 * Summary("whole")["bytes_pulled"].get<double>());
}

TEST_F(Repeat, ResumesOntoAnotherNumberOfShards) {
  Process run(PsRun("run", Lossy("60")));
  ASSERT_TRUE(run.WaitFor("epoch 1/60")) << run.Err();
  run.Signal(SIGINT);
  ASSERT_EQ(run.Wait().code, 3);
  const std::string last = std::to_string(Summary("run")["epochs"].get<int>() + 2);
  const Ended resumed = RunProgram(
      {"ps-run", "--resume", Path("run"), "--shards", "5", "--set", "train.epochs=" + last});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(Summary("run")["shards"], 5);
  ASSERT_EQ(RunSmall("whole", Lossy(last)).code, 0);
  EXPECT_TRUE(Weights("run") == Weights("whole"));
}

TEST_F(Repeat, ARunThatGoesOnIsNotResumed) {
  Process run(PsRun("run", Sets({"train.epochs=100000"})));
  ASSERT_TRUE(run.WaitFor("epoch 1/")) << run.Err();
  const Ended again = RunProgram({"ps-run", "--resume", Path("run")});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("still goes on in another ps-server"));
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait().code, 3);
  EXPECT_EQ(Summary("run")["status"], "interrupted");
}

TEST_F(Repeat, AFinishedRunIsNotResumed) {
  ASSERT_EQ(RunSmall("run", Sets({"train.epochs=1"})).code, 0);
  const Ended again = RunProgram({"ps-run", "--resume", Path("run")});
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("--set train.epochs="));
}

}  // namespace
}  // namespace psgd
