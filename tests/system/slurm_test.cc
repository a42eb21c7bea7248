// Runs as heterogeneous jobs of a Slurm cluster that the test starts: Debian's munge, slurmctld and
// slurmd, two nodes on one machine. Skipped if they are not installed or do not start.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "absl/strings/str_replace.h"
#include "tests/folders.h"
#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::HasSubstr;

constexpr char kConf[] = R"(ClusterName=psgdtest
SlurmctldHost=HOST(127.0.0.1)
SlurmUser=root
SlurmctldPort=PORT0
AuthType=auth/munge
AuthInfo=socket=DIR/munge.socket
StateSaveLocation=DIR/state
SlurmdSpoolDir=DIR/spool-%n
SlurmctldPidFile=DIR/slurmctld.pid
SlurmdPidFile=DIR/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=1,sched_min_interval=100000
SlurmdParameters=config_overrides
MpiDefault=none
KillWait=5
NodeName=cpu NodeHostname=HOST NodeAddr=127.0.0.1 Port=PORT1 CPUs=4
NodeName=gpu NodeHostname=HOST NodeAddr=127.0.0.1 Port=PORT2 CPUs=4
PartitionName=all Nodes=cpu,gpu Default=YES MaxTime=INFINITE State=UP
)";

class SlurmTest : public RunTest {
 protected:
  void SetUp() override {
    for (const char* program :
         {"/usr/sbin/munged", "/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/bin/sbatch"}) {
      if (access(program, X_OK) != 0)
        GTEST_SKIP() << "no " << program << ": install munge, slurmctld, slurmd and slurm-client";
    }
    if (geteuid() != 0) GTEST_SKIP() << "slurmd needs root";
    char host[256] = "";
    gethostname(host, sizeof host);
    const int port = 20000 + getpid() % 10000;
    const std::string conf =
        Write("slurm.conf", absl::StrReplaceAll(kConf, {{"HOST", host},
                                                        {"DIR", Path("slurm")},
                                                        {"PORT0", std::to_string(port)},
                                                        {"PORT1", std::to_string(port + 1)},
                                                        {"PORT2", std::to_string(port + 2)}}));
    std::filesystem::create_directories(Path("slurm/state"));
    Write("slurm/munge.key", std::string(1024, 'k'));
    chmod(Path("slurm/munge.key").c_str(), 0600);
    // Other users read the socket's folder.
    for (const std::string& folder : {Path("slurm"), Path("")}) {
      std::filesystem::permissions(folder, static_cast<std::filesystem::perms>(0755));
    }
    setenv("SLURM_CONF", conf.c_str(), 1);
    Daemon({"/usr/sbin/munged", "--foreground", "--force", "--key-file=" + Path("slurm/munge.key"),
            "--socket=" + Path("slurm/munge.socket"), "--pid-file=" + Path("slurm/munged.pid"),
            "--log-file=" + Path("slurm/munged.log"), "--seed-file=" + Path("slurm/munged.seed")});
    if (!Eventually([&] { return std::filesystem::exists(Path("slurm/munge.socket")); },
                    std::chrono::seconds(10))) {
      GTEST_SKIP() << "munged does not start: " << daemons_.back()->Err();
    }
    Daemon({"/usr/sbin/slurmctld", "-D", "-f", conf});
    for (const char* node : {"cpu", "gpu"})
      Daemon({"/usr/sbin/slurmd", "-D", "-N", node, "-f", conf});
    const auto idle = [] {
      const Ended ended = RunProgram({"/usr/bin/sinfo", "--noheader", "--Node", "--format=%T"});
      return ended.out == "idle\nidle\n";
    };
    if (!Eventually(idle, std::chrono::seconds(20))) {
      GTEST_SKIP() << "Slurm does not start here: " << daemons_[1]->Err() << daemons_[2]->Err();
    }
  }

  void TearDown() override {
    for (auto daemon = daemons_.rbegin(); daemon != daemons_.rend(); ++daemon) {
      (*daemon)->Signal(SIGTERM);
      (*daemon)->Wait(std::chrono::seconds(10));
    }
    daemons_.clear();
    RunTest::TearDown();
  }

  void Daemon(std::vector<std::string> argv) {
    daemons_.push_back(std::make_unique<Process>(std::move(argv)));
  }

  std::vector<std::unique_ptr<Process>> daemons_;
};

TEST_F(SlurmTest, ASweepsRunsAreJobs) {
  SmallConfig();
  const std::string sweep = Write(
      "sweep.yaml",
      "name: jobs\nbase: small.yaml\ngrid: {compression.push: [none, fp16], train.epochs: [2]}\n");
  const Ended ended = RunProgram({"ps-sweep", sweep, "--dir", Path("out"), "--launcher", "slurm",
                                  "--parallel", "2", "--json"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const Json result = Json::parse(ended.out, nullptr, false);
  ASSERT_EQ(result["runs"].size(), 2u);
  for (const Json& run : result["runs"]) {
    EXPECT_EQ(run["status"], "finished") << run;
    EXPECT_EQ(run["epochs"], 2.0);
    EXPECT_GT(run["accuracy"], 0.5);
  }
  // Runs the template alone, with its own numbers of tasks.
  const Ended by_hand = RunProgram({"/usr/bin/sbatch", "--wait", "--output=" + Path("by-hand.log"),
                                    SourceDir() + "/deploy/slurm/run.sbatch", ProgramPath("ps-run"),
                                    SmallConfig(), "--run-dir", Path("by-hand"), "--threads", "1"});
  EXPECT_EQ(by_hand.code, 0) << by_hand.err << File("by-hand.log");
  EXPECT_EQ(Summary("by-hand")["status"], "finished");
  EXPECT_THAT(daemons_[1]->Err(), HasSubstr("het_job"));
}

TEST_F(SlurmTest, ProgramsRunInJobs) {
  const std::string sweep = ProgramSweep("--epochs, 2", "grid: {--rate: [0.25, 0.5]}\n");
  const Ended ended = RunProgram({"ps-sweep", sweep, "--dir", Path("out"), "--launcher", "slurm",
                                  "--parallel", "2", "--json"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const Json result = Json::parse(ended.out, nullptr, false);
  ASSERT_EQ(result["runs"].size(), 2u);
  EXPECT_EQ(result["runs"][0]["loss"], 0.25);
  EXPECT_EQ(result["runs"][1]["loss"], 0.5);
  // Where a job's environment does not reach its tasks.
  setenv("SLURM_EXPORT_ENV", "NONE", 1);
  const Ended again =
      RunProgram({"ps-sweep", sweep, "--dir", Path("again"), "--launcher", "slurm", "--json"});
  unsetenv("SLURM_EXPORT_ENV");
  EXPECT_EQ(again.code, 0) << again.err;
}

TEST_F(SlurmTest, CtrlCStopsTheJobWithACheckpoint) {
  SmallConfig();
  const std::string sweep = Write(
      "sweep.yaml", "name: jobs\nbase: small.yaml\ntwin: none\ngrid: {train.epochs: [100000]}\n");
  Process process({"ps-sweep", sweep, "--dir", Path("out"), "--launcher", "slurm"});
  std::string run;
  ASSERT_TRUE(Eventually([&] {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(Path("out/runs"), ignored)) {
      run = "out/runs/" + entry.path().filename().string();
    }
    return !run.empty() && File(run + "/metrics.jsonl").find("evaluation") != std::string::npos;
  })) << process.Err();
  process.Signal(SIGINT);
  const Ended ended = process.Wait();
  EXPECT_EQ(ended.code, 3) << ended.err;
  EXPECT_EQ(Summary(run)["status"], "interrupted");
  EXPECT_EQ(RunProgram({"/usr/bin/squeue", "--noheader"}).out, "");
}

}  // namespace
}  // namespace psgd
