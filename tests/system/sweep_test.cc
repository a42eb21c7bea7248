// Sweeps with the real program: undisturbed, killed, stopped, and with runs that fail.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kSweep[] = R"(name: small
question: Does it work?
base: small.yaml
grid:
  compression.push: [none, fp16, {topk: {density: 0.05}}]
  consistency.staleness: [0]
  train.epochs: [EPOCHS]
)";

class SweepTest : public RunTest {
 protected:
  // The sweep's file. Its runs are synchronous, so their results are always the same.
  std::string SmallSweep(int epochs, const std::string& more = "") const {
    SmallConfig();
    std::string text = kSweep;
    text.replace(text.find("EPOCHS"), 6, std::to_string(epochs));
    return Write("sweep.yaml", text + more);
  }
  std::vector<std::string> Command(const std::string& sweep, const std::string& dir,
                                   const std::vector<std::string>& more = {}) const {
    return std::vector<std::string>{"ps-sweep", sweep, "--dir", Path(dir)} + more;
  }
  static Json JsonOf(const Ended& ended) { return Json::parse(ended.out, nullptr, false); }

  // The part of a sweep that does not depend on stops: each run's id and results.
  static Json Deterministic(const Json& sweep) {
    Json rows = Json::array();
    for (const Json& run : sweep["runs"]) {
      rows.push_back({run["id"], run["label"], run["status"], run["accuracy"], run["loss"],
                      run["epochs"], run["steps"]});
    }
    return rows;
  }
};

TEST_F(SweepTest, RunsEverythingOnceAndReports) {
  const std::string sweep = SmallSweep(1);
  const Ended planned =
      RunProgram(Command(sweep, "out", {"--dry-run", "--set", "compression.dense_below=1MiB"}));
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.out,
              AllOf(HasSubstr("push topk density 0.05"), HasSubstr("3 runs. To do: 6.14 k samples"),
                    HasSubstr("1 of 1 kind of runs went here for a moment"),
                    HasSubstr("note: push topk density 0.05: codec topk carries 0 of ")));
  EXPECT_FALSE(std::filesystem::exists(Path("out")));

  const Ended first = RunProgram(Command(sweep, "out", {"--json", "--parallel", "2"}));
  ASSERT_EQ(first.code, 0) << first.err;
  const Json result = JsonOf(first);
  ASSERT_EQ(result["runs"].size(), 3u);
  for (const Json& run : result["runs"]) EXPECT_EQ(run["status"], "finished") << run;
  EXPECT_EQ(result["runs"][0]["twin"], true);
  EXPECT_GT(result["runs"][0]["accuracy"], 0.5);
  EXPECT_THAT(File("out/report.html"),
              AllOf(HasSubstr("Does it work?"), HasSubstr("figure-accuracy-bytes")));

  // The same sweep again runs nothing a second time.
  const std::string summary =
      "out/runs/" + result["runs"][1]["id"].get<std::string>() + "/summary.json";
  const std::string before = File(summary);
  const Ended second = RunProgram(Command(sweep, "out"));
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(second.err,
              AllOf(HasSubstr("3 of 3 runs are done already"), Not(HasSubstr("starts:"))));
  EXPECT_THAT(second.out, HasSubstr("push topk density 0.05"));
  EXPECT_EQ(File(summary), before);
  EXPECT_THAT(second.err, Not(HasSubstr("another sweep")));

  // A sweep that has nothing in common with the first.
  const std::string other = Write(
      "other.yaml", "base: small.yaml\ntwin: none\ngrid: {train.epochs: [1], data.batch: [16]}\n");
  for (const bool dry : {true, false}) {
    const Ended replacing = RunProgram(Command(other, "out", {dry ? "--dry-run" : "--json"}));
    EXPECT_EQ(replacing.code, 0) << replacing.err;
    EXPECT_THAT(
        dry ? replacing.out : replacing.err,
        AllOf(HasSubstr("of another sweep, \"small\" (Does it work?), none of whose 3 runs"),
              HasSubstr("--dir")));
  }
  EXPECT_EQ(RunProgram(Command(sweep, "out")).code, 0);  // makes its report again
  EXPECT_EQ(File(summary), before);
  const Ended estimate = RunProgram(Command(sweep, "out", {"--dry-run"}));
  EXPECT_THAT(estimate.out, HasSubstr("3 of them done"));

  const Ended markdown = RunProgram({"ps-sweep", "report", Path("out"), "--markdown"});
  EXPECT_EQ(markdown.code, 0) << markdown.err;
  EXPECT_THAT(markdown.out, HasSubstr("| push none (twin) | finished | "));
}

// Runs that end during the try, long runs, and runs that cannot be tried.
TEST_F(SweepTest, BeforeAnyHasFinishedTheTimeIsTried) {
  const auto seconds = [&](const std::string& sweep) {
    const Ended planned = RunProgram(Command(sweep, "out", {"--dry-run", "--json"}));
    EXPECT_EQ(planned.code, 0) << planned.err;
    return JsonOf(planned)["estimate"]["seconds"];
  };
  const double brief = seconds(SmallSweep(1)).get<double>();
  EXPECT_GT(brief, 0);
  // A hundred thousand epochs of 2,048 samples take neither a second nor a century.
  const double lengthy = seconds(SmallSweep(100000)).get<double>();
  EXPECT_GT(lengthy, 100 * brief);
  EXPECT_LT(lengthy, 1e7);
  SmallConfig();
  const std::string diverges =
      Write("sweep.yaml",
            "base: small.yaml\ntwin: none\n"
            "grid: {train.epochs: [1], optimizer.sgd.learning_rate: [1e30]}\n");
  EXPECT_TRUE(seconds(diverges).is_null());
  EXPECT_THAT(RunProgram(Command(diverges, "out", {"--dry-run"})).out,
              AllOf(HasSubstr("A try here failed: base, seed 1: "),
                    HasSubstr("can be told once a run has finished")));
}

// ps-sweep itself stops the run, and the run's log would show that as a fault.
TEST_F(SweepTest, ATryWithoutAStepSaysSo) {
  Process process(Command(SmallSweep(100000), "out", {"--dry-run"}));
  std::vector<pid_t> runs;
  ASSERT_TRUE(Eventually([&] {
    runs = process.Children("ps-run");
    for (const pid_t run : runs) kill(run, SIGSTOP);
    return !runs.empty();
  })) << process.Err();
  // Once ps-sweep has asked the run to end, it may: else ps-sweep would wait ten seconds for it.
  const auto is_asked = [&] {
    std::ifstream status("/proc/" + std::to_string(runs[0]) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("ShdPnd:"))  // signals that wait, as a mask
        return (std::stoull(line.substr(7), nullptr, 16) >> (SIGINT - 1) & 1) != 0;
    }
    return false;
  };
  EXPECT_TRUE(Eventually(is_asked)) << process.Err();
  kill(runs[0], SIGCONT);
  const Ended ended = process.Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, AllOf(HasSubstr("seed 1: no step was done within 20 s\n"),
                               Not(HasSubstr("checkpoint"))));
}

// SIGKILL at several moments: in the first run, between runs, in a later one.
TEST_F(SweepTest, KilledAtAnyMomentItEndsAsIfUndisturbed) {
  const std::string sweep = SmallSweep(6, "launch: {threads: 1}\n");
  const Ended undisturbed = RunProgram(Command(sweep, "calm", {"--json"}));
  ASSERT_EQ(undisturbed.code, 0) << undisturbed.err;
  int kills = 0;
  for (const int milliseconds : {300, 900, 1500, 700}) {
    Process process(Command(sweep, "killed", {"--json"}));
    Pause(std::chrono::milliseconds(milliseconds));
    if (!process.Running()) break;
    kill(process.pid(), SIGKILL);
    process.Wait();
    ++kills;
  }
  EXPECT_GT(kills, 0);
  const Ended ended = RunProgram(Command(sweep, "killed", {"--json"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(Deterministic(JsonOf(ended)), Deterministic(JsonOf(undisturbed)));
}

TEST_F(SweepTest, CtrlCStopsItsRunsWithCheckpoints) {
  const std::string sweep = SmallSweep(100000);
  Process process(Command(sweep, "out"));
  ASSERT_TRUE(Eventually([&] {
    std::error_code ignored;
    for (const auto& run : std::filesystem::directory_iterator(Path("out/runs"), ignored)) {
      const std::string metrics =
          File("out/runs/" + run.path().filename().string() + "/metrics.jsonl");
      if (metrics.find("evaluation") != std::string::npos) return true;
    }
    return false;
  })) << process.Err();
  const Ended other = RunProgram(Command(sweep, "out"));
  EXPECT_NE(other.code, 0);
  EXPECT_THAT(other.err, HasSubstr("another ps-sweep works in"));
  process.Signal(SIGINT);
  const Ended ended = process.Wait();
  EXPECT_EQ(ended.code, 3) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr("checkpoint"), HasSubstr(" interrupted"),
                               HasSubstr("the same command goes on")));
  EXPECT_THAT(ended.out, HasSubstr("interrupted"));
}

// Each concurrent run, with all its processes, has its own cores.
TEST_F(SweepTest, RunsArePinnedToTheirCores) {
  const auto cores_of = [](pid_t pid) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("Cpus_allowed_list:\t")) return line.substr(19);
    }
    return std::string();
  };
  Process process(
      Command(SmallSweep(100000, "resources: {cores: 1}\n"), "out", {"--parallel", "2"}));
  std::set<std::string> taken;
  ASSERT_TRUE(Eventually([&] {
    taken.clear();
    for (const pid_t run : process.Children("ps-run")) taken.insert(cores_of(run));
    return taken.size() == std::min(2u, std::thread::hardware_concurrency()) &&
           taken.count("") == 0;
  })) << process.Err();
  for (const std::string& cores : taken)
    EXPECT_EQ(cores.find_first_not_of("0123456789"), std::string::npos) << cores;
  for (int i = 0; i < 2; ++i) process.Signal(SIGINT);
  EXPECT_EQ(process.Wait().code, 3);
}

// The note is shown before the sweep, at its start and in the report.
TEST_F(SweepTest, SharedCoresAreSaidAndTooManyRefused) {
  const std::string many = std::to_string(std::thread::hardware_concurrency() + 1);
  const Ended refused = RunProgram(Command(SmallSweep(1, "resources: {cores: 4096}\n"), "out"));
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("sweep.yaml: resources.cores: 4096 for a run"),
                                 HasSubstr("this machine")));
  const std::string sweep = SmallSweep(1);
  const std::string note = many + " runs at a time share the ";
  EXPECT_THAT(RunProgram(Command(sweep, "out", {"--dry-run", "--parallel", many})).out,
              HasSubstr("note: " + note));
  const Ended ended = RunProgram(Command(sweep, "out", {"--parallel", many}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("note: " + note));
  EXPECT_THAT(File("out/report.html"), HasSubstr(note));
  // The note stays for runs that were timed with shared cores.
  EXPECT_EQ(RunProgram(Command(sweep, "out")).code, 0);
  EXPECT_THAT(File("out/report.html"), HasSubstr(note));
}

TEST_F(SweepTest, FailedRunsAreKeptAndRepeatedWhenAsked) {
  // A diverging run fails. Its config has no error that could be found before.
  SmallConfig();
  const std::string sweep =
      Write("sweep.yaml",
            "name: failing\nbase: small.yaml\ntwin: none\ngrid: {train.epochs: [1], "
            "optimizer.sgd.learning_rate: [0.05, 1e30]}\n");
  const Ended first = RunProgram(Command(sweep, "out", {"--json"}));
  EXPECT_EQ(first.code, 1) << first.err;
  const Json runs = JsonOf(first)["runs"];
  EXPECT_EQ(runs[0]["status"], "finished");
  EXPECT_EQ(runs[1]["status"], "failed");
  EXPECT_THAT(first.err,
              AllOf(HasSubstr("failed: learning_rate 1e30"), HasSubstr("--retry-failed")));
  const Ended second = RunProgram(Command(sweep, "out"));
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.err, AllOf(HasSubstr("failed before"), Not(HasSubstr("starts:"))));
  const Ended third = RunProgram(Command(sweep, "out", {"--retry-failed"}));
  EXPECT_EQ(third.code, 1);
  EXPECT_THAT(third.err, HasSubstr("starts: learning_rate 1e30"));
  EXPECT_TRUE(
      std::filesystem::exists(Path("out/failed/" + runs[1]["id"].get<std::string>() + "-1")));
}

TEST_F(SweepTest, AshaStopsWhatIsWorse) {
  SmallConfig();
  const std::string sweep = Write("sweep.yaml", R"(name: asha
base: small.yaml
twin: none
grid: {optimizer.sgd.learning_rate: [0.05, 0.0001, 0.00001], train.epochs: [4], consistency.staleness: [0]}
asha: {rungs: [1, 2], reduction: 2}
)");
  const Ended first = RunProgram(Command(sweep, "out", {"--json"}));
  ASSERT_EQ(first.code, 0) << first.err;
  const Json runs = JsonOf(first)["runs"];
  EXPECT_EQ(runs[0]["status"], "finished");
  for (const int i : {1, 2}) {
    EXPECT_EQ(runs[i]["status"], "stopped early") << runs[i];
    EXPECT_EQ(runs[i]["epochs"], 1.0);
  }
  const Ended again = RunProgram(Command(sweep, "out", {"--json"}));
  EXPECT_EQ(Deterministic(JsonOf(again)), Deterministic(JsonOf(first)));
  EXPECT_THAT(again.err, Not(HasSubstr("starts:")));

  // Without asha, the runs that it stopped go on.
  std::string text = File("sweep.yaml");
  text.erase(text.find("asha: {"));
  const Ended without = RunProgram(Command(Write("sweep.yaml", text), "out", {"--json"}));
  ASSERT_EQ(without.code, 0) << without.err;
  EXPECT_THAT(without.err, HasSubstr("2 runs that were stopped early may go on"));
  const Json result = JsonOf(without);
  ASSERT_FALSE(result["runs"].empty());
  for (const Json& run : result["runs"]) {
    EXPECT_EQ(run["status"], "finished") << run;
    EXPECT_EQ(run["epochs"], 4.0);
  }
}

// The twin is far better than the other runs, but asha never compares them with it, in the first
// sitting or in later ones. ps-sweep is killed right after the twin, and then at other moments.
TEST_F(SweepTest, AshaDecidesTheSameOverKills) {
  SmallConfig();
  const std::string sweep = Write("sweep.yaml", R"(name: asha
base: small.yaml
twin: one
list:
  - {name: first, optimizer.sgd.learning_rate: 0.00002}
  - {name: better, optimizer.sgd.learning_rate: 0.0002}
  - {name: worse, optimizer.sgd.learning_rate: 0.00001}
grid: {train.epochs: [4], consistency.staleness: [0]}
asha: {metric: loss, rungs: [1, 2], reduction: 2}
launch: {threads: 1}
)");
  const Ended undisturbed = RunProgram(Command(sweep, "calm", {"--json"}));
  ASSERT_EQ(undisturbed.code, 0) << undisturbed.err;
  const Json calm = JsonOf(undisturbed);
  ASSERT_EQ(calm["runs"].size(), 4u);
  EXPECT_EQ(calm["runs"][0]["twin"], true);
  const char* expected[] = {"finished", "finished", "finished", "stopped early"};
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(calm["runs"][i]["status"], expected[i]) << calm["runs"][i];

  const std::string twin = "killed/outcomes/" + calm["runs"][0]["id"].get<std::string>() + ".json";
  Process process(Command(sweep, "killed", {"--json"}));
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(Path(twin)); })) << process.Err();
  kill(process.pid(), SIGKILL);
  process.Wait();
  for (const int milliseconds : {900, 1500}) {
    Process again(Command(sweep, "killed", {"--json"}));
    Pause(std::chrono::milliseconds(milliseconds));
    if (!again.Running()) break;
    kill(again.pid(), SIGKILL);
    again.Wait();
  }
  const Ended ended = RunProgram(Command(sweep, "killed", {"--json"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  // The number of steps of a stopped run depends on the moment of its stop.
  const auto learned = [](const Json& result) {
    Json rows = Deterministic(result);
    for (Json& row : rows) row.erase(row.size() - 1);
    return rows;
  };
  EXPECT_EQ(learned(JsonOf(ended)), learned(calm));
}

// The server and its workers are separate hosts, on links slow enough to notice.
TEST_F(SweepTest, RunsOverSlowLinks) {
  const Ended probe = RunProgram({"/bin/sh", "-c", "ip netns add psprobe && ip netns del psprobe"});
  if (probe.code != 0) GTEST_SKIP() << "no network namespaces: " << probe.err;
  SmallConfig();
  const std::string sweep = Write("sweep.yaml", R"(name: link
base: small.yaml
twin: none
grid: {launch.link: [10mbit, unlimited], train.epochs: [3]}
)");
  const Ended ended = RunProgram(Command(sweep, "out", {"--json"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  const Json runs = JsonOf(ended)["runs"];
  EXPECT_EQ(runs[0]["label"], "link 10mbit");
  for (const Json& run : runs) EXPECT_EQ(run["status"], "finished") << run;
  EXPECT_EQ(runs[0]["loss"], runs[1]["loss"]);
  // All weights leave by the server's one link, except what its bucket lets through at once.
  const double bytes = runs[0]["bytes_pulled"].get<double>() - 256e3;
  EXPECT_GT(bytes, 0);
  EXPECT_GT(runs[0]["seconds"], bytes * 8 / 10e6);
  // The workers waited for all the weights, two at a time on one link. Checks the phases of this
  // wait.
  const auto seconds = [&](const Json& run, const char* phase) {
    const std::string name = "out/runs/" + run["id"].get<std::string>();
    return Summary(name)["phase_seconds"][phase].get<double>();
  };
  EXPECT_GT(seconds(runs[0], "wire"), 0.5 * bytes * 8 / 10e6);
  const Ended left = RunProgram({"/bin/sh", "-c", "ip netns list"});
  EXPECT_THAT(left.out, Not(testing::ContainsRegex("ps[0-9a-f][0-9a-f][0-9a-f][0-9a-f]0-")));
}

TEST_F(SweepTest, ErrorsSayWhere) {
  const std::string sweep = Write("sweep.yaml", "base: small.yaml\ngrid: {data.btach: [1]}\n");
  const Ended ended = RunProgram({"ps-sweep", sweep});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err,
              AllOf(HasSubstr("sweep.yaml:2:8: "), HasSubstr("did you mean \"batch\"?")));
  EXPECT_EQ(RunProgram({"ps-sweep", "report", Path("nowhere")}).code, 2);
  EXPECT_EQ(RunProgram({"ps-sweep"}).code, 2);
  EXPECT_EQ(RunProgram({"ps-sweep", Write("s.yaml", "base: small.yaml\n"), "--gpu", "x"}).code, 2);
}

// Runs whose workers are a program. Each of its results says which --rate it was given.
TEST_F(SweepTest, OptionsOfACommandAreVaried) {
  const std::string sweep =
      ProgramSweep("--epochs, 2", "grid: {--rate: [0.25, 0.5], compression.push: [int8]}\n");
  const Ended planned = RunProgram(Command(sweep, "out", {"--dry-run"}));
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.out,
              AllOf(HasSubstr("--rate 0.25"), HasSubstr("The time is not known: 2 of them")));
  const Ended ended = RunProgram(Command(sweep, "out", {"--json", "--parallel", "2"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("note: --rate 0.25: codec int8 carries 0 of 1 tensors"));
  EXPECT_THAT(File("out/report.html"), HasSubstr(", carried 0 of 1 tensors)"));
  const Json result = JsonOf(ended);
  ASSERT_EQ(result["runs"].size(), 2u);
  for (const int i : {0, 1}) {
    const Json& run = result["runs"][i];
    EXPECT_EQ(run["status"], "finished");
    EXPECT_EQ(run["epochs"], 2.0);
    EXPECT_EQ(run["loss"], i == 0 ? 0.25 : 0.5);
    EXPECT_EQ(result["configurations"][i]["axes"]["--rate"], i == 0 ? "0.25" : "0.5");
  }
  EXPECT_THAT(File("out/report.html"), HasSubstr("--rate 0.25"));
  EXPECT_THAT(RunProgram(Command(sweep, "out")).err, HasSubstr("2 of 2 runs are done already"));
}

TEST_F(SweepTest, ACommandThatAlwaysFailsIsTold) {
  const std::string sweep =
      ProgramSweep("--no-such, 1", "grid: {--rate: [1, 2, 3, 4]}\nresources: {cores: 1}\n");
  const Ended ended = RunProgram(Command(sweep, "out"));
  EXPECT_EQ(ended.code, 1) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("the first 3 runs all failed before training began, so the 1 "
                                   "left may as well; Ctrl-C ends the sweep. The last: "));
  EXPECT_THAT(ended.err, testing::ContainsRegex("4 of 4 runs failed, all of them so: .*error: "
                                                "unrecognized arguments: --no-such 1"));
}

// The first run that passes a rung without what asha compares ends the sweep; its checkpoint stays.
TEST_F(SweepTest, AProgramThatDoesNotLogTheMetricIsTold) {
  const std::string rest = "grid: {--rate: [0.25, 0.5]}\n";
  const auto sweep = [&](const std::string& metric) {
    return Command(ProgramSweep("--epochs, 3, --pause, 0.02", rest + "asha: {metric: " + metric +
                                                                  ", rungs: [1], reduction: 2}\n"),
                   "out", {"--set", "train.epochs=3"});
  };
  const Ended ended = RunProgram(sweep("f1"));
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr("asha.metric is f1"), HasSubstr("logged accuracy, loss;"),
                               HasSubstr("run.log(f1=...)")));
  const Ended mended = RunProgram(sweep("accuracy"));
  EXPECT_EQ(mended.code, 0) << mended.err;
  EXPECT_THAT(mended.err, HasSubstr("stopped early: "));
}

// Each worker sees one GPU, and knows its number and the seed of its run.
TEST_F(SweepTest, ACommandGetsItsGpusAndSeed) {
  Write("program.sh", "echo \"$PSGD_SEED $PSGD_WORKER $CUDA_VISIBLE_DEVICES\" >> " + Path("seen") +
                          "\nexec \"$@\"\n");
  ProgramSweep("--epochs, 1", "repeat: {seeds: 2}\nresources: {gpus: 2}\n");
  const std::string sweep =
      Write("gpus.yaml",
            absl::StrReplaceAll(File("programs-sweep.yaml"),
                                {{"command: [", "command: [sh, " + Path("program.sh") + ", "}}));
  const Ended ended = RunProgram(Command(sweep, "out", {"--gpu", "2,3,5,6", "--parallel", "2"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  std::vector<std::string> seen = absl::StrSplit(File("seen"), '\n', absl::SkipEmpty());
  std::ranges::sort(seen);
  EXPECT_THAT(seen, testing::ElementsAre("1 0 2", "1 1 3", "2 0 5", "2 1 6"));
}

TEST_F(SweepTest, AfterCtrlCAProgramGoesOn) {
  const std::string sweep = ProgramSweep("--pause, 0.02", "grid: {--epochs: [20]}\n");
  std::string run;
  {
    Process process(Command(sweep, "out"));
    ASSERT_TRUE(Eventually([&] {
      std::error_code ignored;
      for (const auto& entry : std::filesystem::directory_iterator(Path("out/runs"), ignored))
        run = "out/runs/" + entry.path().filename().string();
      return !run.empty() && !Metrics(run, "evaluation").empty();
    })) << process.Err();
    process.Signal(SIGINT);
    EXPECT_EQ(process.Wait().code, 3) << process.Err();
  }
  EXPECT_EQ(Summary(run)["status"], "interrupted");
  const Ended ended = RunProgram(Command(sweep, "out"));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr("goes on: "), Not(HasSubstr("begins again"))));
  EXPECT_EQ(Summary(run)["status"], "finished");
  EXPECT_EQ(Summary(run)["epochs"], 20.0);
  EXPECT_EQ(Summary(run)["steps"], 480);
}

TEST_F(SweepTest, WhatACommandCannotHaveIsSaid) {
  const auto error = [&](const std::string& sweep, const std::vector<std::string>& more = {}) {
    const Ended ended = RunProgram(Command(sweep, "out", more));
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_FALSE(std::filesystem::exists(Path("out/runs")));
    return ended.err;
  };
  EXPECT_THAT(error(ProgramSweep("--epochs, 2", ""), {"--gpu", "0", "--launcher", "slurm"}),
              HasSubstr("Slurm says which GPUs launch.command sees"));
  SmallConfig();
  EXPECT_THAT(error(Write("s.yaml", "base: small.yaml\nlaunch: {command: [python3, train.py]}\n")),
              HasSubstr("say model: client in the config"));
  Write("client.yaml", "model: client\n");
  EXPECT_THAT(error(Write("s.yaml", "base: client.yaml\n")),
              HasSubstr("launch: {command: [python3, train.py]}"));
  EXPECT_THAT(error(Write("s.yaml", "base: client.yaml\ngrid: {--lr: [1]}\n")),
              HasSubstr("--lr is an option of the program"));
}

}  // namespace
}  // namespace psgd
