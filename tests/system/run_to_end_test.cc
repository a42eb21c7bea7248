// ps-run from a config to trained weights, over everything that a config can choose.
#include <filesystem>

#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::HasSubstr;

class RunToEnd : public RunTest {
 protected:
  // Trains the small config with changes, and checks all results.
  Json Train(const std::string& run, const std::vector<std::string>& arguments) {
    const Ended ended = RunSmall(run, arguments + std::vector<std::string>{"--json", "--quiet"});
    EXPECT_EQ(ended.code, 0) << ended.err;
    const Json summary = Json::parse(ended.out, nullptr, false);
    EXPECT_TRUE(summary.is_object()) << ended.out;
    if (!summary.is_object()) return Json::object();
    EXPECT_EQ(summary, Summary(run));
    ExpectLearned(run, summary);
    return summary;
  }
  void ExpectLearned(const std::string& run, const Json& summary) const {
    EXPECT_EQ(summary["status"], "finished");
    EXPECT_GE(summary["test_accuracy"].get<double>(), 0.85) << "it did not learn";
    EXPECT_EQ(summary["rejected"], Json::object());
    EXPECT_GT(Weights(run).size(), 1000u);
  }
};

TEST_F(RunToEnd, ShowsWhatHappensAndCountsEveryStepAndByte) {
  const Ended ended = RunSmall("run", {});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("run directory: " + Path("run")));
  EXPECT_THAT(ended.err, HasSubstr("epoch 3/3: test accuracy "));
  EXPECT_THAT(ended.err, Not(HasSubstr("\r"))) << "a redrawn line where there is no terminal";
  EXPECT_THAT(ended.err, Not(HasSubstr("\033"))) << "colour where there is no terminal";
  EXPECT_THAT(ended.out, HasSubstr("finished"));
  EXPECT_THAT(ended.out, HasSubstr("next commands to try"));
  EXPECT_EQ(Metrics("run", "evaluation").size(), 3u);
  EXPECT_FALSE(Metrics("run", "progress").empty());
  EXPECT_THAT(File("run/config.yaml"), HasSubstr("momentum: 0.9"));
  EXPECT_THAT(File("run/server/server.log"), HasSubstr("worker 1 joined"));
  EXPECT_THAT(File("run/worker-1/worker.log"), HasSubstr("as worker 1"));

  const Json summary = Summary("run");
  ExpectLearned("run", summary);
  EXPECT_EQ(summary["transport"], "auto");
  EXPECT_EQ(summary["epochs"], 3.0);
  EXPECT_EQ(summary["steps"], 3 * 2048 / 32);
  EXPECT_EQ(summary["workers"], 2);
  EXPECT_EQ(summary["shards"], 2);
  // (64 + 1) * 32 + (32 + 1) * 10 weights.
  const int64_t dense = int64_t{2410} * 4 * 192;
  EXPECT_EQ(summary["bytes_pushed_dense"], dense);
  EXPECT_GT(summary["bytes_pushed"], dense);
  EXPECT_LT(summary["bytes_pushed"], dense * 5 / 4) << "headers cost more than a quarter";
}

// Where the checkpoints were, there is a file: that does not pass, unlike a full disk.
TEST_F(RunToEnd, FailsIfItsLastCheckpointCannotBeWritten) {
  Process run(PsRun("run", Sets({"train.epochs=40"})));
  ASSERT_TRUE(run.WaitFor("epoch 2/40")) << run.Err();
  std::filesystem::rename(Path("run/server"), Path("aside"));
  Write("run/server", "in the way");
  const Ended ended = run.Wait();
  EXPECT_EQ(ended.code, 1) << ended.err << File("aside/server.log");
  EXPECT_THAT(ended.err, HasSubstr("training is finished, but its last checkpoint could not be "
                                   "written: checkpoint 1: cannot "));
  EXPECT_THAT(ended.err, HasSubstr("The weights are in " + Path("run/weights.safetensors")));
  const Json summary = Summary("run");
  EXPECT_EQ(summary["status"], "finished");
  EXPECT_EQ(summary["epochs"], 40.0);
  EXPECT_THAT(summary["failed_checkpoint"].get<std::string>(), HasSubstr(Path("run/server")));
  EXPECT_GT(Weights("run").size(), 1000u);
}

TEST_F(RunToEnd, Transports) {
  for (const char* transport : {"zmq", "ipc", "grpc", "ucx"}) {  // others train with auto
    SCOPED_TRACE(transport);
    const Json summary = Train(transport, Sets({std::string("cluster.transport=") + transport}));
    EXPECT_EQ(summary["transport"], transport);
  }
}

TEST_F(RunToEnd, ShardsAndWorkers) {
  for (const char* shards : {"1", "4", "7"}) {
    SCOPED_TRACE(shards);
    EXPECT_EQ(Train(std::string("s") + shards, {"--shards", shards})["shards"], std::stoi(shards));
  }
  EXPECT_GE(Train("auto", {"--shards", "auto", "--set", "cluster.pin=true"})["shards"], 1);
  for (const char* workers : {"1", "4"}) {
    SCOPED_TRACE(workers);
    EXPECT_EQ(Train(std::string("w") + workers, {"--workers", workers})["workers"],
              std::stoi(workers));
  }
}

TEST_F(RunToEnd, Codecs) {
  for (const char* codec :
       {"fp16", "topk", "onebit", "ternary", "int8", "qsgd", "natural", "sign", "powersgd"}) {
    SCOPED_TRACE(codec);
    const Json summary =
        Train(codec, Sets({std::string("compression.push=") + codec, "train.epochs=5"}));
    EXPECT_EQ(summary["codec"], codec);
    EXPECT_LT(summary["bytes_pushed"], summary["bytes_pushed_dense"]);
  }
}

TEST_F(RunToEnd, PullCodecs) {
  for (const auto& [codec, most] : {std::pair{"fp16", 0.6}, {"bf16", 0.6}, {"int8", 0.4}}) {
    SCOPED_TRACE(codec);
    const Json summary = Train(codec, Sets({std::string("compression.pull=") + codec}));
    EXPECT_LT(summary["bytes_pulled"].get<double>(),
              most * summary["bytes_pulled_dense"].get<double>());
  }
}

// Codecs with momentum at the worker, and signs that need their own rate.
TEST_F(RunToEnd, CodecsThatBringTheirMomentum) {
  const Json dgc = Train("dgc", Sets({"compression.push={dgc: {density: 0.02, warmup: 100}}",
                                      "optimizer.sgd.momentum=0", "train.epochs=5"}));
  EXPECT_EQ(dgc["codec"], "dgc");
  EXPECT_LT(dgc["bytes_pushed"], dgc["bytes_pushed_dense"]);
  Train("signum", Sets({"compression.push=signum", "optimizer={sgd: {learning_rate: 0.002}}",
                        "train.epochs=5"}));
}

// With momentum and a staleness of three clocks, LeNet needs a lower rate than the small run.
TEST_F(RunToEnd, LeNetUnderStaleness) {
  const Json summary =
      Train("run", Sets({"model={zoo: lenet5}", "data.synthetic.shape=[1, 28, 28]",
                         "data.synthetic.train_samples=1024", "train.epochs=4",
                         "optimizer.sgd.learning_rate=0.01", "consistency.staleness=3"}));
  EXPECT_LE(summary["staleness"]["max"], 3);
}

TEST_F(RunToEnd, StalenessUnbounded) { Train("run", Sets({"consistency.staleness=unbounded"})); }

// Each class gives a tenth of the gradient, so rates are ten times those of cross-entropy.
TEST_F(RunToEnd, OtherLossesTrain) {
  for (const char* loss : {"sigmoid", "squared", "smooth_l1"}) {
    const std::string run = loss;
    const Ended ended =
        RunSmall(run, Sets({"model.loss=" + run, "optimizer.sgd.learning_rate=0.5"}) +
                          std::vector<std::string>{"--quiet"});
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_GT(Summary(run)["test_accuracy"].get<double>(), 0.9) << loss;
    const std::vector<double> losses = Losses(run);
    EXPECT_LT(losses.back(), losses.front()) << loss;
  }
}

}  // namespace
}  // namespace psgd
