// ps-ctl against a running server and a run directory.
#include <signal.h>

#include <filesystem>

#include "tests/folders.h"
#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace std::chrono_literals;

class Ctl : public RunTest {
 protected:
  static Ended Run(const std::vector<std::string>& arguments) {
    return RunProgram(std::vector<std::string>{"ps-ctl"} + arguments);
  }
  // The header of a .safetensors file.
  Json Header(const std::string& name) const {
    const std::string file = File(name);
    uint64_t length = 0;
    if (file.size() < 8) return nullptr;
    file.copy(reinterpret_cast<char*>(&length), 8);
    return Json::parse(file.substr(8, length), nullptr, false);
  }
};

TEST_F(Ctl, ARunningServer) {
  Process run(PsRun("run", Sets({"train.epochs=100000", "consistency.staleness=2"})));
  ASSERT_TRUE(run.WaitFor("epoch 2/")) << run.Err();
  const std::string server = ServerOf(run);

  const Ended table = Run({"status", "--server", server});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, AllOf(HasSubstr("small: training"), HasSubstr("shards\n"),
                               HasSubstr("worker-1"), HasSubstr("evaluations\n")));
  const Json status = StatusOf(server);
  EXPECT_EQ(status["state"], "TRAINING");
  EXPECT_EQ(status["shards"].size(), 2u);

  const Ended checkpoint = Run({"checkpoint", "--server", server, "--json"});
  EXPECT_EQ(checkpoint.code, 0) << checkpoint.err;
  EXPECT_EQ(Json::parse(checkpoint.out)["id"], "1");

  const Ended named = Run({"checkpoint", "--server", server, "--name", "second", "--json"});
  EXPECT_EQ(named.code, 0) << named.err;
  EXPECT_EQ(Json::parse(named.out)["name"], "second");
  const Ended again = Run({"checkpoint", "--server", server, "--name", "second"});
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("has the name second; choose another"));
  EXPECT_EQ(Run({"checkpoint", "--server", server, "--name", "../x"}).code, 2);
  EXPECT_THAT(Run({"checkpoints", "--server", server}).out, HasSubstr("second"));
  const Ended prune = Run({"prune", Path("run"), "--keep", "1"});
  EXPECT_EQ(prune.code, 1);
  EXPECT_THAT(prune.err, HasSubstr("still goes on"));

  const Ended set = Run({"set", "--server", server, "learning_rate=0.01", "weight_decay=0.001"});
  EXPECT_EQ(set.code, 0) << set.err;
  EXPECT_EQ(StatusOf(server)["hyper"]["learning_rate"], 0.01);
  const Ended typo = Run({"set", "--server", server, "learning_rat=0.01"});
  EXPECT_EQ(typo.code, 2);
  EXPECT_THAT(typo.err, HasSubstr("did you mean \"learning_rate\"?"));
  EXPECT_EQ(Run({"set", "--server", server, "learning_rate=-1"}).code, 2);

  const Ended eval = Run({"eval", "--server", server, "--json"});
  EXPECT_EQ(eval.code, 0) << eval.err;
  EXPECT_GE(Json::parse(eval.out)["test_accuracy"].get<double>(), 0.85);
  EXPECT_EQ(Json::parse(eval.out)["samples"], 512);

  const Ended exported = Run({"export", "--server", server, "--out", Path("live.safetensors")});
  EXPECT_EQ(exported.code, 0) << exported.err;
  EXPECT_EQ(Header("live.safetensors").size(), 5u);  // two layers, and __metadata__

  const Ended one = Run({"drain", "--server", server, "--worker", "1"});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_TRUE(Eventually([&] { return StatusOf(server)["workers"][1]["live"] == false; }));
  EXPECT_THAT(StatusOf(server)["workers"][1]["note"].get<std::string>(),
              HasSubstr("asked to stop"));
  EXPECT_EQ(Run({"drain", "--server", server, "--worker", "1"}).code, 2);
  EXPECT_EQ(StatusOf(server)["state"], "TRAINING");

  EXPECT_EQ(Run({"drain", "--server", server, "--reason", "enough"}).code, 0);
  const Ended ended = run.Wait();
  EXPECT_EQ(ended.code, 3);
  EXPECT_EQ(Summary("run")["status"], "interrupted");
  EXPECT_EQ(Summary("run")["error"], "enough");
}

TEST_F(Ctl, SaysWhatItWaitsFor) {
  Process run(PsRun("run", Sets({"train.epochs=100000", "cluster.lease=30s"})));
  ASSERT_TRUE(run.WaitFor("epoch 2/")) << run.Err();
  const std::vector<pid_t> workers = run.Children("ps-worker");
  for (const pid_t worker : workers) ASSERT_EQ(kill(worker, SIGSTOP), 0);
  Process checkpoint({"ps-ctl", "checkpoint", "--server", ServerOf(run)});
  EXPECT_TRUE(checkpoint.WaitFor("waiting until the workers have finished their segment"))
      << checkpoint.Err();
  for (const pid_t worker : workers) ASSERT_EQ(kill(worker, SIGCONT), 0);
  const Ended ended = checkpoint.Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("checkpoint 1 at epoch"));
}

TEST_F(Ctl, ARunDirectory) {
  ASSERT_EQ(RunSmall("run", {}).code, 0);
  const Ended table = Run({"status", Path("run")});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out,
              AllOf(HasSubstr("finished"), HasSubstr("evaluations\n"), HasSubstr("checkpoints\n")));
  const Json status = Json::parse(Run({"status", Path("run"), "--json"}).out, nullptr, false);
  EXPECT_EQ(status["summary"]["status"], "finished");
  EXPECT_EQ(status["evaluations"].size(), 3u);
  EXPECT_GE(status["checkpoints"].size(), 1u);

  const Ended exported = Run({"export", "--run-dir", Path("run"), "--out", Path("w.safetensors")});
  EXPECT_EQ(exported.code, 0) << exported.err;
  EXPECT_TRUE(File("w.safetensors") == Weights("run"));

  const Ended misnamed = Run({"export", "--run-dir", Path("run"), "--out", Path("w.pt")});
  EXPECT_EQ(misnamed.code, 2);
  EXPECT_THAT(misnamed.err, AllOf(HasSubstr("w.pt is named as .pt, but --out writes .safetensors"),
                                  HasSubstr("safetensors.torch.load_file")));
  EXPECT_FALSE(std::filesystem::exists(Path("w.pt")));
  const Ended predict = Run({"predict", "--run-dir", Path("run"), "--data", Path("x.csv")});
  EXPECT_EQ(predict.code, 2);
  EXPECT_THAT(predict.err, HasSubstr("this one trained on synthetic"));

  const Ended eval = Run({"eval", "--run-dir", Path("run"), "--json"});
  EXPECT_EQ(eval.code, 0) << eval.err;
  EXPECT_EQ(Json::parse(eval.out)["test_accuracy"], Summary("run")["test_accuracy"]);

  const Ended best = Run({"eval", "--run-dir", Path("run"), "--checkpoint", "best"});
  EXPECT_EQ(best.code, 0) << best.err;
  EXPECT_THAT(best.err, HasSubstr("the run did not keep its best one (durability.keep_best)"));

  const Ended none = Run(
      {"export", "--run-dir", Path("run"), "--checkpoint", "99", "--out", Path("x.safetensors")});
  EXPECT_EQ(none.code, 2) << none.err;
  EXPECT_THAT(none.err, HasSubstr("99"));
}

TEST_F(Ctl, ARunOfAProgramHasNoNetwork) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "Python has no runtime of the sanitizer, which libpsgd needs";
#endif
  Write("client.yaml", "model: client\ndata: {batch: 4}\ncluster: {shards: 1, workers: 1}\n");
  // ps-run leads Python to the package beside its build.
  const Ended run =
      RunProgram({"ps-run", Path("client.yaml"), "--run-dir", Path("run"), "--", "/usr/bin/python3",
                  "-B", SourceDir() + "/tests/python/counting_worker.py"});
  ASSERT_EQ(run.code, 0) << run.err;
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"eval"}, {"predict", "--data", "x.csv"}}) {
    const Ended ended = Run(command + std::vector<std::string>{"--run-dir", Path("run")});
    EXPECT_EQ(ended.code, 1);
    EXPECT_THAT(ended.err, AllOf(HasSubstr("a program brought the model"),
                                 HasSubstr("ps-ctl export --out FILE.safetensors")));
  }
  const Ended words = Run({"predict", Path("run"), "x.csv"});
  EXPECT_THAT(words.err, HasSubstr("a program brought the model")) << "both without options";
  const Ended elsewhere = Run({"predict", Path("rum"), "x.csv"});
  EXPECT_EQ(elsewhere.code, 2);
  EXPECT_THAT(elsewhere.err, HasSubstr("rum is not a run directory"));
  const Ended resumed = RunProgram({"ps-run", "--resume", Path("run")});
  EXPECT_EQ(resumed.code, 2);
  EXPECT_THAT(resumed.err, HasSubstr("ps-run --resume " + Path("run") + " -- python3 train.py"));
}

TEST_F(Ctl, WhichRun) {
  EXPECT_EQ(Run({"status"}).code, 2);
  EXPECT_EQ(Run({"eval"}).code, 2);
  EXPECT_EQ(Run({}).code, 2);
  const Ended ended = Run({"status", Path("nothing")});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("not a run directory"));
}

}  // namespace
}  // namespace psgd
