// Clipping, micro-batches, groups of parameters, an averaged model, early stop and the best
// checkpoint, with the real programs.
#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::HasSubstr;

class TrainRun : public RunTest {
 protected:
  void Train(const std::string& run, const std::vector<std::string>& sets) const {
    const Ended ended = RunSmall(run, Sets(sets));
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(Summary(run)["status"], "finished");
    EXPECT_EQ(Summary(run)["rejected"], Json::object());
  }
  std::string Export(const std::string& run, const std::vector<std::string>& more) const {
    const std::string out = Path("exported.safetensors");
    const Ended ended = RunProgram(
        std::vector<std::string>{"ps-ctl", "export", "--run-dir", Path(run), "--out", out} + more);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return File("exported.safetensors");
  }
};

// Bounds that no gradient reaches change no bit, though all gradients wait for the last one. Tight
// ones do.
TEST_F(TrainRun, GradientsAreClipped) {
  Train("free", {"train.epochs=2"});
  Train("wide", {"train.epochs=2", "train.clip={norm: 1e6, value: 1e6}"});
  EXPECT_TRUE(Weights("wide") == Weights("free"));
  for (const std::string codec : {"none", "topk", "powersgd", "factors"}) {
    Train(codec, {"train.epochs=2", "train.clip.norm=0.05", "compression.push=" + codec,
                  "compression.dense_below=0"});
    EXPECT_GT(Losses(codec).back(), Losses("free").back()) << codec;
  }
  Train("local", {"train.epochs=2", "train.clip={norm: 0.05, value: 0.01}", "local.steps=8"});
  EXPECT_GT(Losses("local").back(), Losses("free").back());
}

TEST_F(TrainRun, ABatchInPartsIsTheSameToRounding) {
  Train("whole", {"train.epochs=2"});
  Train("parts", {"train.epochs=2", "data.micro_batch=8", "train.clip.norm=1e6"});
  EXPECT_EQ(Summary("parts")["steps"], Summary("whole")["steps"]);
  for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(Losses("parts")[i], Losses("whole")[i], 1e-4);
}

// The first layer stays, at any staleness, and a resumed run goes on with it.
TEST_F(TrainRun, AGroupOfRateZeroStays) {
  const std::vector<std::string> frozen = {
      "optimizer={adamw: {learning_rate: 0.01, weight_decay: 0.1}, groups: [{match: \"*1.weight\", "
      "rate: 0}, {match: \"*.bias\", weight_decay: 0.5}]}"};
  Train("first", frozen + std::vector<std::string>{"train.epochs=1"});
  Train("again", frozen + std::vector<std::string>{"train.epochs=1"});
  EXPECT_TRUE(Weights("first") == Weights("again"));
  const std::string all = "optimizer.groups=[{match: \"*\", rate: 0}]";
  Train("one", {all, "train.epochs=1"});
  Train("two", {all, "train.epochs=2"});
  EXPECT_TRUE(Weights("one") == Weights("two"));
  const Ended wrong = RunSmall("wrong", Sets({"optimizer.groups=[{match: fc1.wieght, rate: 0}]"}));
  EXPECT_EQ(wrong.code, 2) << wrong.err;
  EXPECT_THAT(wrong.err, HasSubstr("did you mean \"fc1.weight\"?"));
}

// The average does not change training, and evaluations are of it.
TEST_F(TrainRun, EvaluationsAreOfTheAverage) {
  for (const std::string pull : {"none", "{delta: {codec: {topk: {density: 0.2}}}}"}) {
    const std::string plain = pull.substr(0, 2) + "-plain",
                      averaged = pull.substr(0, 2) + "-average";
    const std::vector<std::string> base = {"train.epochs=3", "compression.pull=" + pull};
    Train(plain, base);
    Train(averaged, base + std::vector<std::string>{"train.average=0.99"});
    EXPECT_TRUE(Weights(averaged) == Weights(plain));
    EXPECT_NE(Losses(averaged).back(), Losses(plain).back());
    EXPECT_FALSE(Export(averaged, {"--average"}) == Export(averaged, {}));
    const Ended eval =
        RunProgram({"ps-ctl", "eval", "--run-dir", Path(averaged), "--average", "--json"});
    ASSERT_EQ(eval.code, 0) << eval.err;
    EXPECT_NEAR(Json::parse(eval.out)["test_loss"].get<double>(), Losses(averaged).back(), 1e-4);
  }
  const Ended none = RunProgram({"ps-ctl", "export", "--run-dir", Path("no-plain"), "--average",
                                 "--out", Path("x.safetensors")});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("train.average"));
}

TEST_F(TrainRun, ARunGoesOnWithItsAverageAndGroups) {
  const std::vector<std::string> sets = {
      "train.average=0.99", "train.clip.norm=1",
      "optimizer.groups=[{match: \"*.weight\", rate: 0.5, weight_decay: 0.01}]"};
  Train("whole", sets + std::vector<std::string>{"train.epochs=4"});
  Train("resumed", sets + std::vector<std::string>{"train.epochs=2"});
  const Ended ended =
      RunProgram({"ps-run", "--resume", Path("resumed"), "--set", "train.epochs=4"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_TRUE(Weights("resumed") == Weights("whole"));
  EXPECT_TRUE(Export("resumed", {"--average"}) == Export("whole", {"--average"}));
}

TEST_F(TrainRun, ARunStopsEarlyAndKeepsItsBest) {
  // At most one evaluation can be better by half.
  const Ended ended =
      RunSmall("run", Sets({"train.epochs=50", "train.early_stop={patience: 3, least: 0.5}",
                            "durability={checkpoint: 1 epoch, keep: 1, keep_best: true}"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  const Json summary = Summary("run");
  EXPECT_EQ(summary["status"], "finished");
  EXPECT_THAT(summary["stopped_early"].get<std::string>(), HasSubstr("train.early_stop"));
  EXPECT_LT(summary["epochs"].get<double>(), 10);
  EXPECT_THAT(File("run/server/server.log"), HasSubstr("stops early: the test set's accuracy"));
  EXPECT_THAT(ended.out, HasSubstr("stopped early"));
  EXPECT_THAT(ended.out + ended.err, HasSubstr(" --checkpoint best --out weights.safetensors"));

  double best = 0;
  for (const Json& evaluation : Metrics("run", "evaluation")) {
    best = std::max(best, evaluation["accuracy"].get<double>());
  }
  const Ended listed = RunProgram({"ps-ctl", "checkpoints", Path("run"), "--json"});
  ASSERT_EQ(listed.code, 0) << listed.err;
  const Json checkpoints = Json::parse(listed.out)["checkpoints"];
  EXPECT_LE(checkpoints.size(), 2u);
  int marked = 0;
  for (const Json& checkpoint : checkpoints) {
    if (!checkpoint["best"].get<bool>()) continue;
    ++marked;
    EXPECT_EQ(checkpoint["id"], summary["best_checkpoint"]);
  }
  EXPECT_EQ(marked, 1);
  const Ended eval =
      RunProgram({"ps-ctl", "eval", "--run-dir", Path("run"), "--checkpoint", "best", "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_NEAR(Json::parse(eval.out)["test_accuracy"].get<double>(), best, 1e-9);
}

}  // namespace
}  // namespace psgd
