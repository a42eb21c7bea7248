// Runs that stop, and which runs may go on from them.
#include <signal.h>

#include <filesystem>

#include "tests/folders.h"
#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Resume : public RunTest {
 protected:
  // Makes an interrupted run in Path("run") with a checkpoint.
  void StopARun(const std::vector<std::string>& arguments = {}) {
    Process run(PsRun("run", Sets({"train.epochs=100000"}) + arguments));
    ASSERT_TRUE(run.WaitFor("epoch 1/")) << run.Err();
    run.Signal(SIGINT);
    ASSERT_EQ(run.Wait().code, 3);
  }
  Ended Go(const std::vector<std::string>& assignments) const {
    return RunProgram(std::vector<std::string>{"ps-run", "--resume", Path("run")} +
                      Sets(assignments));
  }
};

// Slice ids need more than seven bits, so the byte order of their keys matters.
TEST_F(Resume, AModelOfHundredsOfTensorsGoesOn) {
  std::string layers = "model.hidden=[8";
  for (int i = 0; i < 150; ++i) layers += ",8";
  const std::vector<std::string> sets =
      Sets({layers + "]", "cluster.shards=1", "train.epochs=6", "durability.acknowledge=journal",
            "durability.journal=64KiB"});
  Process run(PsRun("run", sets));
  ASSERT_TRUE(run.WaitFor("epoch 1/")) << run.Err();
  run.Signal(SIGINT);
  ASSERT_EQ(run.Wait().code, 3);
  EXPECT_EQ(RunProgram({"ps-ctl", "verify", Path("run")}).code, 0);
  const Ended ended = Go({});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(Summary("run")["epochs"], 6.0);
}

// Folders of tests/golden/runs: killed after checkpoint 1 of 4 epochs, with a journal. A change of
// the format that cannot read them adds another folder, and says what to do with the old ones.
TEST_F(Resume, RunsOfEarlierVersionsGoOn) {
  const std::pair<const char*, bool> runs[] = {{"2026-11-23", false}, {"2026-11-28", true}};
  for (const auto& [date, journal_goes_on] : runs) {
    ASSERT_EQ(RunProgram({"/usr/bin/tar", "xzf",
                          GoldenFile(std::string("runs/") + date + ".tar.gz"), "-C", Path("")})
                  .code,
              0);
    const Ended verified = RunProgram({"ps-ctl", "verify", Path("run")});
    EXPECT_EQ(verified.code, journal_goes_on ? 0 : 1) << verified.out << verified.err;
    if (!journal_goes_on) {
      for (const Ended& ended : {verified, RunProgram({"ps-server", "--recover", Path("run")})}) {
        EXPECT_THAT(ended.out + ended.err,
                    HasSubstr("was written by an earlier version of psgd, whose journal this one "
                              "cannot go on from: go on from the run's last checkpoint with ps-run "
                              "--resume"));
      }
    }
    const Ended ended = Go({});
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(Summary("run")["epochs"], 4.0);
    EXPECT_GT(Summary("run")["test_accuracy"].get<double>(), 0.9);
    std::filesystem::remove_all(Path("run"));
  }
}

TEST_F(Resume, AnotherModelIsRefused) {
  StopARun(Sets({"model.hidden=[64]"}));
  const std::string before = Weights("run");
  for (const char* hidden : {"model.hidden=[32]", "model.hidden=[128]", "model.hidden=[64,64]"}) {
    const Ended ended = Go({hidden});
    EXPECT_NE(ended.code, 0) << hidden;
    EXPECT_THAT(ended.err, HasSubstr("keep the model and data it was taken with")) << hidden;
  }
  EXPECT_TRUE(Weights("run") == before);
}

TEST_F(Resume, AnotherOptimizerIsRefused) {
  StopARun();
  const Ended ended = Go({"optimizer=adam"});
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.err, HasSubstr("another optimizer"));
}

// So that the next resume, without the mistake, goes on.
TEST_F(Resume, AMistakeInSetChangesNothing) {
  ASSERT_EQ(RunSmall("run", Sets({"train.epochs=1", "model.hidden=[64]"})).code, 0);
  const auto files = [&] {
    return File("run/config.yaml") + File("run/summary.json") + File("run/metrics.jsonl");
  };
  const std::string before = files();
  const auto refused = [&](const std::string& set, const std::string& names) {
    const Ended ended = Go({"train.epochs=2", set});
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(names));
    EXPECT_TRUE(files() == before) << set;
  };
  refused("optimizer=adam", "optimizer is adam, and was sgd");
  refused("model.hidden=[32]", "model.hidden is [32], and was [64]");
  refused("data.synthetic.train_samples=1000", "data.synthetic.train_samples is 1000, and was ");
  const Ended server = RunProgram({"ps-server", "--resume", Path("run"), "--port", "0", "--set",
                                   "train.epochs=2", "--set", "optimizer=adam"});
  EXPECT_EQ(server.code, 2) << server.err;
  EXPECT_THAT(server.err, HasSubstr("optimizer is adam, and was sgd"));
  EXPECT_TRUE(files() == before);
  const Ended fewer = Go({"train.epochs=1"});
  EXPECT_THAT(fewer.err, HasSubstr("has finished its 1 epochs"));
  EXPECT_EQ(Go({"train.epochs=2"}).code, 0);
  EXPECT_EQ(Summary("run")["status"], "finished");
  EXPECT_THAT(Go({"train.epochs=1"}).err,
              HasSubstr("has already trained 2 epochs, and train.epochs is 1; to train on, raise "
                        "them: --set train.epochs=4"));
}

TEST_F(Resume, FewerEpochsThanAnInterruptedRunHasAreRefused) {
  StopARun();
  const std::string before = File("run/config.yaml") + File("run/summary.json");
  ASSERT_GT(Summary("run")["epochs"].get<double>(), 1);
  const Ended ended = Go({"train.epochs=1"});
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("and train.epochs is 1: raise it"));
  EXPECT_TRUE(File("run/config.yaml") + File("run/summary.json") == before);
}

// What only a worker finds.
TEST_F(Resume, ARunThatEndsBeforeItTrainsIsAsBefore) {
  ASSERT_EQ(RunSmall("run", Sets({"train.epochs=1"})).code, 0);
  const std::string before = File("run/config.yaml") + File("run/summary.json");
  const Ended ended = RunProgram({"ps-run", "--resume", Path("run"), "--set", "train.epochs=2",
                                  "--worker-prefix", "sh " + Write("fail.sh", "exit 1\n")});
  EXPECT_EQ(ended.code, 1) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr("before training began"), Not(HasSubstr("worker.log"))))
      << "its log has only lines of the earlier run";
  EXPECT_TRUE(File("run/config.yaml") + File("run/summary.json") == before);
}

TEST_F(Resume, WhatIsStoppedBeforeItBeginsPromisesNoCheckpoint) {
  Process run(PsRun("run", {"--worker-prefix", "sh " + Write("hang.sh", "exec sleep 60\n")}));
  ASSERT_TRUE(run.WaitFor("watch it with")) << run.Err();
  run.Signal(SIGINT);
  EXPECT_TRUE(run.WaitFor("training has not begun, so no checkpoint is taken")) << run.Err();
  const Ended ended = run.Wait();
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.err, HasSubstr("Nothing was trained, so start anew"));
}

// Counts include the whole run. Times and the rate are for the part since the resume.
TEST_F(Resume, TheRateCountsWhatWasTrainedSince) {
  StopARun(Sets({"train.epochs=40"}));
  const double before = Summary("run")["steps"].get<double>();
  ASSERT_GT(before, 0);
  ASSERT_EQ(Go({}).code, 0);
  const Json summary = Summary("run");
  const double since = summary["steps"].get<double>() - before;
  const double rate = 32 * since / summary["train_seconds"].get<double>();
  EXPECT_NEAR(summary["samples_per_second"].get<double>(), rate, 0.1 * rate);
}

// What diverged would make room for itself among the checkpoints that are kept.
TEST_F(Resume, TrainingThatDivergedLeavesTheCheckpointBefore) {
  ASSERT_EQ(RunSmall("run", Sets({"train.epochs=1"})).code, 0);
  for (int i = 0; i < 2; ++i) {
    const Ended ended =
        Go({"train.epochs=3", "optimizer.sgd.learning_rate=1e30", "durability.keep=1"});
    EXPECT_EQ(ended.code, 1) << ended.err;
    EXPECT_THAT(ended.err, AllOf(HasSubstr("training diverged: lower the learning rate"),
                                 Not(HasSubstr("could not be written"))));
  }
  const Json listed = Json::parse(RunProgram({"ps-ctl", "checkpoints", Path("run"), "--json"}).out);
  const Json& left = listed["checkpoints"];
  ASSERT_EQ(left.size(), 1u) << left;
  EXPECT_EQ(left[0]["epoch"], 1.0);
  EXPECT_EQ(RunProgram({"ps-ctl", "eval", "--run-dir", Path("run")}).code, 0);
}

TEST_F(Resume, TrainingAfterAnEarlierCheckpointIsGivenUp) {
  const std::vector<std::string> sets =
      Sets({"train.epochs=5", "durability={checkpoint: 1 epoch, keep: 9, keep_best: true}"});
  ASSERT_EQ(RunSmall("run", sets).code, 0);
  const double before = Summary("run")["wall_seconds"].get<double>();
  const Ended ended = RunProgram(
      {"ps-run", "--resume", Path("run"), "--checkpoint", "2", "--set", "train.epochs=3"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr("epoch 3/3"), Not(HasSubstr("epoch 4/3"))));
  const Json status = Json::parse(RunProgram({"ps-ctl", "status", Path("run"), "--json"}).out);
  EXPECT_EQ(status["evaluations"].size(), 3u);
  for (const Json& checkpoint : status["checkpoints"]) {
    const auto id = checkpoint["id"].get<uint64_t>();
    EXPECT_EQ(checkpoint["given_up"].get<bool>(), id > 2 && id <= 5) << id;
  }
  const Json summary = Summary("run");
  const auto best = summary["best_checkpoint"].get<uint64_t>();
  EXPECT_TRUE(best <= 2 || best > 5) << best;
  EXPECT_NEAR(summary["wall_seconds"].get<double>(),
              before + summary["seconds_since_resume"].get<double>(), 0.2);
}

TEST_F(Resume, AServerHasTheWeightsBeforeAWorkerComes) {
  StopARun();
  const std::string before = Weights("run");
  Process server({"ps-server", "--resume", Path("run"), "--port", "0"});
  const std::string address = ServerOf(server);
  const Ended exported =
      RunProgram({"ps-ctl", "export", "--server", address, "--out", Path("out.safetensors")});
  EXPECT_EQ(exported.code, 0) << exported.err;
  EXPECT_TRUE(File("out.safetensors") == before);
  server.Signal(SIGINT);
  const Ended ended = server.Wait();
  EXPECT_EQ(ended.code, 3) << ended.err;
  EXPECT_TRUE(Weights("run") == before);
  EXPECT_EQ(Summary("run")["status"], "interrupted");
}

TEST_F(Resume, WhatCannotBeGoneOnWithStaysAsItIs) {
  ASSERT_EQ(RunSmall("run", Sets({"train.epochs=1"})).code, 0);
  std::filesystem::remove_all(Path("run/server/checkpoint-000000000001"));
  const std::string config = File("run/config.yaml"), metrics = File("run/metrics.jsonl");
  const Ended ended = RunProgram({"ps-server", "--resume", Path("run"), "--set", "train.epochs=7"});
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("no complete checkpoint"));
  EXPECT_EQ(File("run/config.yaml"), config);
  EXPECT_EQ(File("run/metrics.jsonl"), metrics);
}

TEST_F(Resume, AServerRefusesAFinishedRun) {
  ASSERT_EQ(RunSmall("run", Sets({"train.epochs=1"})).code, 0);
  const Ended ended = RunProgram({"ps-server", "--resume", Path("run"), "--port", "0"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("has finished"), HasSubstr("--set train.epochs=")));
}

// The one worker of the resumed run pushes the residuals of all three workers, or reports them as
// lost.
TEST_F(Resume, FewerWorkersGoOnWithTheResidualsOfAll) {
  StopARun(Sets({"compression.push={topk: {density: 0.01}}", "cluster.workers=3"}));
  const double before = Metrics("run", "progress").back()["residual_norm"].get<double>();
  ASSERT_GT(before, 0);
  std::filesystem::copy(Path("run"), Path("other"), std::filesystem::copy_options::recursive);
  const std::string some_more =
      absl::StrCat("train.epochs=", 2 + static_cast<int>(Summary("run")["epochs"].get<double>()));
  const Ended all = RunProgram(std::vector<std::string>{"ps-run", "--resume", Path("run")} +
                               Sets({"cluster.workers=1", "compression.push=none", some_more}));
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_EQ(Summary("run")["residual_norm_lost"], 0.0);
  EXPECT_EQ(Metrics("run", "progress").back()["residual_norm"], 0.0);
  const Ended none =
      RunProgram(std::vector<std::string>{"ps-run", "--resume", Path("other")} +
                 Sets({"cluster.workers=1", "compression.push=signum", "optimizer.sgd.momentum=0",
                       "optimizer.sgd.learning_rate=0.001", some_more}));
  EXPECT_EQ(none.code, 0) << none.err;
  EXPECT_THAT(File("other/server/server.log"),
              HasSubstr("of the checkpoint is lost: no codec of worker 0 takes it"));
  const double lost = Summary("other")["residual_norm_lost"].get<double>();
  EXPECT_GT(lost, 0);
}

TEST_F(Resume, UnixSocketsFromARelativeAndALongDirectory) {
  const std::string relative = std::filesystem::relative(Path("near"));
  const std::string far = Path(std::string(120, 'x'));
  for (const std::string& folder : {relative, far}) {
    const Ended ended = RunProgram({"ps-run", SmallConfig(), "--run-dir", folder, "--set",
                                    "cluster.transport=ipc", "--set", "train.epochs=1"});
    EXPECT_EQ(ended.code, 0) << ended.err;
  }
}

}  // namespace
}  // namespace psgd
