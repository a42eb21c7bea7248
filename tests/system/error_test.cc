// Errors before training, with the words that a user sees.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>

#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using namespace std::chrono_literals;

class Error : public RunTest {
 protected:
  Ended RunText(const std::string& yaml) {
    return RunProgram({"ps-run", Write("bad.yaml", yaml), "--run-dir", Path("run")});
  }
  bool RunDirWasMade() const { return std::filesystem::exists(Path("run")); }
};

TEST_F(Error, UnknownKey) {
  const Ended ended = RunText("model: {zoo: mlp}\ntrain: {epoch: 3}\n");
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("bad.yaml:2:9"), HasSubstr("epoch"),
                               HasSubstr("did you mean \"epochs\"?")));
  EXPECT_THAT(ended.out, IsEmpty());
  EXPECT_FALSE(RunDirWasMade());
}

TEST_F(Error, WrongType) {
  const Ended ended = RunText("model: {zoo: mlp}\ntrain: {epochs: many}\n");
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("bad.yaml:2:17"), HasSubstr("many")));
  EXPECT_FALSE(RunDirWasMade());
}

TEST_F(Error, OutOfRange) {
  const Ended ended = RunText("model: {zoo: mlp}\ncompression: {push: {topk: {density: 1.5}}}\n");
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("bad.yaml:2:"), HasSubstr("1.5"), HasSubstr("at most 1")));
}

TEST_F(Error, UnknownKeyOnTheCommandLine) {
  const Ended ended = RunSmall("run", Sets({"optimizer.sgd.learning_rat=0.1"}));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("--set optimizer.sgd.learning_rat"),
                               HasSubstr("did you mean \"learning_rate\"?")));
}

TEST_F(Error, NoSuchConfig) {
  const Ended ended = RunProgram({"ps-run", Path("missing.yaml")});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("missing.yaml"));
}

TEST_F(Error, NoSuchOption) {
  const Ended ended = RunProgram({"ps-run", SmallConfig(), "--shard", "4"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("did you mean \"--shards\"?"), HasSubstr("--help")));
}

TEST_F(Error, KeysOfTheConfigAreNoOptions) {
  const auto error = [&](const std::vector<std::string>& arguments) {
    const Ended ended = RunProgram(std::vector<std::string>{"ps-run", SmallConfig()} + arguments);
    EXPECT_EQ(ended.code, 2);
    return ended.err;
  };
  EXPECT_THAT(error({"--epochs", "3"}), HasSubstr("say --set train.epochs=3"));
  EXPECT_THAT(error({"--batch-size=16"}), HasSubstr("say --set data.batch=16"));
  EXPECT_THAT(error({"--lr", "0.1"}), HasSubstr("say --set optimizer.sgd.learning_rate=0.1\n"));
  EXPECT_THAT(error({"--model", "mlp"}), HasSubstr("say --set model.zoo=mlp"));
  EXPECT_THAT(error({"--async"}), HasSubstr("; psgd calls it consistency.staleness: unbounded\n"));
  EXPECT_THAT(error({"--sync", "true"}), HasSubstr("; psgd calls it consistency.staleness: 0\n"));
  EXPECT_THAT(error({"--gradient-accumulation-steps", "4"}),
              HasSubstr("; psgd calls it data.micro_batch: data.batch divided by these steps\n"));
  EXPECT_THAT(error({"--warmup-steps", "500"}),
              HasSubstr("; psgd calls it schedule.warmup, as 500 steps\n"));
  EXPECT_THAT(error({"--optimizer", "adam"}), HasSubstr("say --set optimizer.adam={}"));
  EXPECT_THAT(error({"--worker", "3"}), HasSubstr("did you mean \"--workers\"?"));
  EXPECT_THAT(RunProgram({"ps-sweep", SmallConfig(), "--worker", "3"}).err,
              HasSubstr("say --set cluster.workers=3"));
  EXPECT_THAT(RunProgram({"ps-ctl", "ui", "runs", "--http", "7080"}).err,
              HasSubstr("ps-ctl ui has --port 7080"));
}

TEST_F(Error, WordsInTheWrongPlace) {
  const auto error = [&](const std::vector<std::string>& words) {
    const Ended ended = RunProgram(std::vector<std::string>{"ps-run", SmallConfig()} + words);
    EXPECT_EQ(ended.code, 2);
    return ended.err;
  };
  EXPECT_THAT(error({"--workers", "2", "python3", "train.py", "--epochs", "3"}),
              HasSubstr("not expected: python3 train.py --epochs 3; if that is the workers' "
                        "command, put -- before it: -- python3 train.py --epochs 3\n"));
  EXPECT_THAT(error({"train.epochs=2"}), HasSubstr("; say --set train.epochs=2\n"));
  EXPECT_THAT(error({"--set", "train.epochs", "2"}), HasSubstr("; say --set train.epochs=2\n"));
  EXPECT_THAT(error({"--resume", "run"}),
              AllOf(HasSubstr("leave out"), HasSubstr("run has the config of its run")));
}

TEST_F(Error, DataBesideTheConfig) {
  const std::string config =
      "model: {zoo: mlp}\ndata: {format: table, path: prices.csv, target: price}\n";
  std::filesystem::create_directories(Path("there"));
  Write("there/prices.csv", "size,price\n1,2\n");
  const Ended ended = RunProgram({"ps-run", Write("there/c.yaml", config)});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("--set data.path=" + Path("there/prices.csv")));
}

TEST_F(Error, AHintKeepsTheOptimizerAndAChangeOfItIsNoted) {
  const std::string config =
      Write("adam.yaml", "model: {zoo: mlp}\ndata: {format: synthetic}\noptimizer: {adam: {}}\n");
  const Ended option = RunProgram({"ps-run", config, "--lr", "0.1"});
  EXPECT_EQ(option.code, 2);
  EXPECT_THAT(option.err, HasSubstr("say --set optimizer.adam.learning_rate=0.1\n"));
  const Ended key = RunProgram({"ps-run", config, "--set", "train.lr=0.1"});
  EXPECT_EQ(key.code, 2);
  EXPECT_THAT(key.err, HasSubstr("psgd calls it optimizer.adam.learning_rate\n"));
  const std::vector<std::string> sgd = {"ps-run",    config,
                                        "--run-dir", Path("run"),
                                        "--set",     "optimizer.sgd.momentum=0.9",
                                        "--set",     "train.max_steps=2"};
  const Ended noted = RunProgram(sgd);
  EXPECT_EQ(noted.code, 0) << noted.err;
  EXPECT_THAT(noted.err, HasSubstr("ps-run: note: --set chooses optimizer.sgd: the file's "
                                   "optimizer.adam does not count\n"));
}

TEST_F(Error, ARunThatDivergesSaysWhatToDo) {
  const Ended ended =
      RunSmall("run", Sets({"optimizer.sgd.learning_rate=1e9", "cluster.quarantine=5"}));
  EXPECT_EQ(ended.code, 1) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("training diverged: lower the learning rate "
                                   "(optimizer.sgd.learning_rate is 1e+09), bound the gradients "
                                   "(train.clip: {norm: 1}), and check the data"));
  const size_t advice = ended.err.find("lower the learning rate");
  EXPECT_EQ(ended.err.find("lower the learning rate", advice + 1), std::string::npos) << ended.err;
  EXPECT_THAT(ended.err, testing::Not(HasSubstr("Go on from")))
      << "the newest checkpoint may have diverged";
  EXPECT_EQ(Summary("run")["status"], "failed");
}

// The loss stays finite, so nothing else says so.
TEST_F(Error, ARunWhoseLossExplodesSaysSo) {
  const Ended ended = RunSmall("run", Sets({"optimizer.sgd.learning_rate=3e3"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("times the loss of the first step"));
  const auto summary = Summary("run");
  EXPECT_EQ(summary["status"], "finished");
  EXPECT_THAT(summary["note"].get<std::string>(),
              HasSubstr("lower the learning rate (optimizer.sgd.learning_rate is 3000)"));
}

TEST_F(Error, MissingDataset) {
  const Ended ended =
      RunText("model: {zoo: lenet5}\ndata: {format: idx, path: " + Path("none") + "}\n");
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr(Path("none")));
  EXPECT_FALSE(RunDirWasMade());
}

TEST_F(Error, ModelDoesNotFitItsData) {
  const Ended ended = RunText(
      "model: {zoo: lenet5}\n"
      "data: {format: synthetic, synthetic: {shape: [1, 4, 4]}}\n");
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("lenet5"));
  EXPECT_FALSE(RunDirWasMade());
}

TEST_F(Error, UnknownNetwork) {
  const Ended ended = RunText("model: {zoo: lenet}\ndata: {format: synthetic}\n");
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("did you mean \"lenet5\"?"));
  EXPECT_FALSE(RunDirWasMade());
}

TEST_F(Error, KeysThatWouldDoNothing) {
  const std::pair<const char*, const char*> cases[] = {
      {"compression.rules=[{match: cnov*, push: none}]", "fits no parameter of mlp"},
      {"schedule.warmup=1000 epochs", "schedule.warmup is longer than the run"},
      {"data.path=/x", "format synthetic reads no files"},
      {"model.heads=2", "model.heads does nothing in mlp"},
  };
  for (const auto& [set, words] : cases) {
    const Ended ended = RunSmall("run", Sets({set}));
    EXPECT_EQ(ended.code, 2) << set;
    EXPECT_THAT(ended.err, HasSubstr(words));
    EXPECT_FALSE(RunDirWasMade());
  }
}

TEST_F(Error, ADirectoryAsConfig) {
  const Ended ended = RunProgram({"ps-run", Path(".")});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("Is a directory"));
}

TEST_F(Error, RunDirectoryNotWritable) {
  Write("file", "");
  const Ended ended = RunProgram({"ps-run", SmallConfig(), "--run-dir", Path("file/run")});
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.err, HasSubstr(Path("file/run")));
  // Nobody can write to /proc, not even root.
  const Ended proc = RunProgram({"ps-run", SmallConfig(), "--run-dir", "/proc/psgd-run"});
  EXPECT_NE(proc.code, 0);
  EXPECT_THAT(proc.err, HasSubstr("/proc/psgd-run"));
}

TEST_F(Error, RunDirectoryInUse) {
  ASSERT_EQ(RunSmall("run", Sets({"train.epochs=1"})).code, 0);
  const Ended again = RunSmall("run", {});
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, AllOf(HasSubstr("not empty"), HasSubstr("--resume " + Path("run"))));
}

TEST_F(Error, ResumeWhatIsNoRun) {
  const Ended ended = RunProgram({"ps-run", "--resume", Path("nothing")});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr(Path("nothing")));
}

TEST_F(Error, PortInUse) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof any;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&any), length), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  getsockname(fd, reinterpret_cast<sockaddr*>(&any), &length);
  const std::string port = std::to_string(ntohs(any.sin_port));
  const Ended control = RunProgram(
      {"ps-server", "--config", SmallConfig(), "--run-dir", Path("control"), "--port", port});
  EXPECT_NE(control.code, 0);
  EXPECT_THAT(control.err,
              AllOf(HasSubstr("port " + port + " of 127.0.0.1 is taken"), HasSubstr("--port")));
  const Ended joining = RunProgram({"ps-server", "--join", "127.0.0.1:1", "--port", port});
  EXPECT_EQ(joining.err, control.err);
  const Ended http =
      RunProgram({"ps-run", SmallConfig(), "--run-dir", Path("http"), "--http", port});
  EXPECT_NE(http.code, 0);
  EXPECT_THAT(http.err,
              AllOf(HasSubstr("port " + port + " of 127.0.0.1 is taken"), HasSubstr("--http")));
  // Nothing stands in the way of the next try.
  EXPECT_FALSE(std::filesystem::exists(Path("control")));
  EXPECT_FALSE(std::filesystem::exists(Path("http")));
  close(fd);
}

TEST_F(Error, AServerThatMayOpenFewMoreFilesSaysSo) {
  Process server({"/bin/sh", "-c", "ulimit -n 70 && exec \"$@\"", "sh", ProgramPath("ps-server"),
                  "--config", SmallConfig(), "--run-dir", Path("run"), "--port", "0"});
  EXPECT_TRUE(server.WaitFor("files open and may have 70")) << server.Err();
}

TEST_F(Error, MetricsPortOfAnotherServer) {
  Process first({"ps-server", "--config", SmallConfig(), "--run-dir", Path("first"), "--port", "0",
                 "--http", "0"});
  ASSERT_TRUE(first.WaitFor("/metrics")) << first.Err();
  const std::string out = first.Out();
  const size_t colon = out.rfind(':', out.find("/metrics"));
  const std::string port = out.substr(colon + 1, out.find("/metrics") - colon - 1);
  const Ended second = RunProgram({"ps-server", "--config", SmallConfig(), "--run-dir",
                                   Path("second"), "--port", "0", "--http", port});
  EXPECT_EQ(second.code, 1) << second.err;
  EXPECT_THAT(second.err, HasSubstr("port " + port + " of 127.0.0.1 is taken"));
}

TEST_F(Error, APublicAddressNeedsConsent) {
  const Ended ended = RunProgram(
      {"ps-server", "--config", SmallConfig(), "--run-dir", Path("run"), "--bind", "0.0.0.0"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("0.0.0.0"), HasSubstr("--insecure")));
}

TEST_F(Error, AnAddressThatNobodyKnowsIsNamed) {
  const Ended ended = RunProgram({"ps-server", "--config", SmallConfig(), "--run-dir", Path("run"),
                                  "--bind", "nohost.invalid"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("--bind nohost.invalid: no host nohost.invalid: "),
                               Not(HasSubstr("certificates"))));
}

TEST_F(Error, StandardOutputIsFull) {
  const Ended ended = RunProgram({"/bin/sh", "-c", "exec \"$0\" \"$@\" > /dev/full",
                                  ProgramPath("ps-run"), SmallConfig(), "--run-dir", Path("run"),
                                  "--set", "train.epochs=1", "--json", "--quiet"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("could not be written to standard output"));
}

TEST_F(Error, CommandLinesThatMeanNothing) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"ps-ctl", "staus"}, "no command \"staus\"; did you mean \"status\"?"},
      {{"ps-ctl", "status"}, "ps-ctl status RUN_DIR"},
      {{"ps-ctl", "status", "--server", "127.0.0.1:99999"}, "is not HOST:PORT"},
      {{"ps-worker", "--cpu", "--server", "localhost"}, "is not HOST:PORT"},
      {{"ps-worker", "--cpu", "--server", "127.0.0.1:1", "--step-delay", "-5ms"}, "is negative"},
      {{"ps-server", "--config", SmallConfig(), "--http", "12abc"}, "is not a port"},
      {{"ps-server", "--config", SmallConfig(), "--http", "0.0.0.0:0"}, "make-certs.sh"},
      {{"ps-server", "--config", SmallConfig(), "--advertise", "host:99"}, "host without a port"},
      {{"ps-run", SmallConfig(), "--run-dir", ""}, "--run-dir: the value is empty"},
      {{"ps-run", SmallConfig(), "--run-dir", SmallConfig()}, "is a file; give a folder"},
      {{"ps-run", SmallConfig(), "--shards", "-1"}, "a whole number from 1 to 1024, or auto"},
      {{"ps-run", SmallConfig(), "--set", "name=.."}, "begins with a dot or a dash"},
      {{"ps-sweep", "report", "runs", "--target", "x"}, "--target: x is no number from 0, as 0.9"},
  };
  for (const auto& [command, words] : cases) {
    const Ended ended = RunProgram(command, 20s);
    EXPECT_EQ(ended.code, 2) << words << ": " << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(words));
  }
}

TEST_F(Error, NoServerThere) {
  const Ended worker = RunProgram(
      {"ps-worker", "--cpu", "--server", "127.0.0.1:1", "--connect-deadline", "1s"}, 20s);
  EXPECT_EQ(worker.code, 1);
  EXPECT_THAT(worker.err, AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("is ps-server running there")));
  const Ended ctl = RunProgram({"ps-ctl", "status", "--server", "127.0.0.1:1"}, 20s);
  EXPECT_EQ(ctl.code, 1);
  EXPECT_THAT(ctl.err, HasSubstr("no server answers at 127.0.0.1:1 yet; trying for 5 s"));
  EXPECT_THAT(ctl.err, HasSubstr("is ps-server running there"));
  EXPECT_THAT(ctl.out, IsEmpty());
}

TEST_F(Error, AWorkerSaysForWhichServerItWaits) {
  Process worker({"ps-worker", "--cpu", "--server", "127.0.0.1:1"});
  EXPECT_TRUE(worker.WaitFor("no server answers at 127.0.0.1:1 yet; trying for 60 s"))
      << worker.Err();
  // It has nothing to drain.
  worker.Signal(SIGINT);
  const Ended ended = worker.Wait();
  EXPECT_EQ(ended.code, 3) << ended.err;
  EXPECT_THAT(ended.err, Not(HasSubstr("--drain-deadline")));
}

TEST_F(Error, GpuListThatIsNone) {
  const Ended ended = RunProgram({"ps-worker", "--gpu", "0-x", "--server", "127.0.0.1:1"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("0-7"));
}

TEST_F(Error, GpuWhereThereIsNone) {
  if (std::filesystem::exists("/dev/nvidia0")) GTEST_SKIP() << "this host has a GPU";
  const Ended ended = RunProgram({"ps-worker", "--gpu", "0-7", "--server", "127.0.0.1:1"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("no CUDA device"), HasSubstr("--cpu")));
  const Ended run = RunSmall("run", {"--gpu", "0-7"});
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("no CUDA device"));
  EXPECT_FALSE(RunDirWasMade());
}

// oneDNN can be told to ignore features of the processor.
TEST_F(Error, Bf16WhereTheProcessorLacksIt) {
  const Ended ended =
      RunProgram({"/usr/bin/env", "DNNL_MAX_CPU_ISA=AVX512_CORE", ProgramPath("ps-worker"), "--cpu",
                  "--precision", "bf16", "--server", "127.0.0.1:1"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("no bf16 instructions"), HasSubstr("--precision fp32")));
  const Ended run = RunSmall("run", {"--precision", "tf32"});
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("processors do not compute in tf32 or fp16"));
  EXPECT_FALSE(RunDirWasMade());
}

TEST_F(Error, AModelThatTheMachineCannotHold) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs more address space than the test allows";
#endif
  const Ended ended =
      RunProgram({"/bin/sh", "-c", "ulimit -v 8000000; exec \"$0\" \"$@\"", ProgramPath("ps-run"),
                  SmallConfig(), "--run-dir", Path("run"), "--set", "model.hidden=[30000, 30000]"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("the model mlp has 9022"), HasSubstr("each of 2 workers"),
                               HasSubstr("fewer workers")));
  EXPECT_FALSE(RunDirWasMade());
}

// A benchmark refuses what it cannot do. It does not measure something else.
TEST_F(Error, BenchmarksOfWhatThereIsNot) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--recompute", "-7"},
       "--recompute -7: must be a number of segments of at least 0, or auto"},
      {{"--recompute", "-1"}, "or auto"},
      {{"--precision", "bf16", "--engine", "reference"}, "computes in fp32 alone"},
  };
  for (const auto& [arguments, words] : cases) {
    const Ended ended =
        RunProgram(std::vector<std::string>{"ps-bench", "step", "--batch", "2"} + arguments);
    EXPECT_EQ(ended.code, 2) << words << ": " << ended.out;
    EXPECT_THAT(ended.err, HasSubstr(words));
  }
}

TEST_F(Error, HelpStartsWithExamples) {
  for (const char* program : {"ps-run", "ps-server", "ps-worker", "ps-ctl"}) {
    const Ended ended = RunProgram({program, "--help"});
    EXPECT_EQ(ended.code, 0);
    EXPECT_EQ(ended.out.rfind("Examples:", 0), 0u) << program << ":\n" << ended.out;
    EXPECT_THAT(ended.out, testing::Not(HasSubstr("Excludes:"))) << "that is for the error to say";
    EXPECT_THAT(ended.err, IsEmpty());
    const Ended version = RunProgram({program, "--version"});
    EXPECT_EQ(version.code, 0);
    EXPECT_THAT(version.out, testing::MatchesRegex(std::string(program) + " \\(psgd\\) [0-9.]+\n"));
  }
}

}  // namespace
}  // namespace psgd
