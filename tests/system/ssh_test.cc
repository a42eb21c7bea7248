// Sweeps over machines that ssh reaches. The test starts Debian's sshd twice, on loopback ports and
// with the test's keys, as hosts a and b. Skipped if sshd is not installed or does not start.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kSshd[] = "/usr/sbin/sshd";
constexpr char kPrivileges[] = "/run/sshd";  // root's sshd needs this folder

constexpr char kServerConf[] = R"(ListenAddress 127.0.0.1
Port PORT
HostKey DIR/host_key
AuthorizedKeysFile DIR/user_key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
)";

constexpr char kClientConf[] = R"(Host *
HostName 127.0.0.1
IdentityFile DIR/user_key
IdentitiesOnly yes
UserKnownHostsFile DIR/known_hosts
GlobalKnownHostsFile /dev/null
Host a
Port PORT0
Host b
Port PORT1
Host nobody
Port PORT2
)";

class SshTest : public RunTest {
 protected:
  void SetUp() override {
    for (const char* program : {kSshd, "/usr/bin/ssh", "/usr/bin/ssh-keygen"}) {
      if (access(program, X_OK) != 0)
        GTEST_SKIP() << "no " << program << ": install openssh-server and openssh-client";
    }
    if (geteuid() == 0) made_privileges_ = std::filesystem::create_directory(kPrivileges);
    std::filesystem::create_directories(Path("ssh"));
    for (const char* key : {"host_key", "user_key"}) {
      ASSERT_EQ(RunProgram({"/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                            Path(absl::StrCat("ssh/", key))})
                    .code,
                0);
    }
    const int port = 21000 + 3 * (getpid() % 3000);
    std::string known;
    for (int i = 0; i < 2; ++i) {
      absl::StrAppend(&known, "[127.0.0.1]:", port + i, " ", File("ssh/host_key.pub"));
    }
    Write("ssh/known_hosts", known);
    Write("ssh/client", absl::StrReplaceAll(kClientConf, {{"DIR", Path("ssh")},
                                                          {"PORT0", absl::StrCat(port)},
                                                          {"PORT1", absl::StrCat(port + 1)},
                                                          {"PORT2", absl::StrCat(port + 2)}}));
    for (int i = 0; i < 2; ++i) {
      const std::string conf =
          Write(absl::StrCat("ssh/server", i),
                absl::StrReplaceAll(kServerConf,
                                    {{"DIR", Path("ssh")}, {"PORT", absl::StrCat(port + i)}}));
      hosts_.push_back(
          std::make_unique<Process>(std::vector<std::string>{kSshd, "-D", "-e", "-f", conf}));
    }
    for (const char* host : {"a", "b"}) {
      const auto answers = [&] {
        return RunProgram(
                   {"/usr/bin/ssh", "-F", Path("ssh/client"), "-o", "BatchMode=yes", host, "true"})
                   .code == 0;
      };
      if (!Eventually(answers, std::chrono::seconds(10)))
        GTEST_SKIP() << "sshd does not start here: " << hosts_[0]->Err() << hosts_[1]->Err();
    }
  }

  void TearDown() override {
    hosts_.clear();  // ends all that was started through them
    std::error_code ignored;
    if (made_privileges_) std::filesystem::remove(kPrivileges, ignored);
    RunTest::TearDown();
  }

  std::string Sweep(int epochs) const {
    SmallConfig();
    return Write("sweep.yaml",
                 absl::StrCat("name: far\nbase: small.yaml\ntwin: none\nlaunch: {threads: 1}\n"
                              "grid: {compression.push: [none, fp16], consistency.staleness: [0], "
                              "train.epochs: [",
                              epochs, "]}\n"));
  }
  std::vector<std::string> Command(const std::string& sweep, const std::string& dir,
                                   const std::vector<std::string>& more) const {
    return std::vector<std::string>{"ps-sweep",   sweep, "--dir", Path(dir),
                                    "--launcher", "ssh", "--ssh", "ssh -F " + Path("ssh/client")} +
           more;
  }
  // Processes of runs, from all hosts.
  std::vector<std::string> Runs(const std::string& dir) const {
    return ProcessesThatMention(Path(dir) + "/runs");
  }
  // Whether a run has trained for a while.
  bool Trains(const std::string& dir) const {
    std::error_code ignored;
    for (const auto& run : std::filesystem::directory_iterator(Path(dir + "/runs"), ignored)) {
      const std::string name = dir + "/runs/" + run.path().filename().string();
      if (!Metrics(name, "evaluation").empty()) return true;
    }
    return false;
  }

  std::vector<std::unique_ptr<Process>> hosts_;
  bool made_privileges_ = false;
};

Json Learned(const Ended& sweep) {
  Json rows = Json::array();
  const Json result = Json::parse(sweep.out, nullptr, false);
  for (const Json& run : result["runs"]) {
    rows.push_back(
        {run["id"], run["status"], run["accuracy"], run["loss"], run["epochs"], run["steps"]});
  }
  return rows;
}

TEST_F(SshTest, RunsAreSpreadOverHosts) {
  const std::string sweep = Sweep(2);
  const std::string hosts =
      Write("hosts", "# two that answer, one that does not\na\nb # the second\nnobody\n");
  const Ended ended = RunProgram(Command(sweep, "out", {"--hosts-file", hosts, "--json"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr(") on a\n"), HasSubstr(") on b\n"),
                               HasSubstr("host nobody cannot be used: ssh: connect to host")));
  const Ended here = RunProgram({"ps-sweep", sweep, "--dir", Path("here"), "--json"});
  EXPECT_EQ(Learned(ended), Learned(here));
  for (const Json& run : Learned(ended)) EXPECT_EQ(run[1], "finished");
}

TEST_F(SshTest, ProgramsRunOnHosts) {
  const std::string sweep = ProgramSweep("--epochs, 2", "grid: {--rate: [0.25, 0.5]}\n");
  const Ended ended = RunProgram(Command(sweep, "out", {"--hosts", "a,b", "--json"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr(") on a\n"), HasSubstr(") on b\n")));
  const Json rows = Learned(ended);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0][3], 0.25);
  EXPECT_EQ(rows[1][3], 0.5);
}

TEST_F(SshTest, AHostThatGoesAwayLosesItsRunsToOthers) {
  const std::string sweep = Sweep(25);
  Process process(Command(sweep, "out", {"--hosts", "a,b", "--json"}));
  ASSERT_TRUE(Eventually([&] { return Trains("out"); })) << process.Err();
  hosts_[0].reset();  // ends ps-run too, like a power cut
  const Ended ended = process.Wait(std::chrono::seconds(180));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err,
              AllOf(HasSubstr("host a cannot be used: "), HasSubstr("lost its place on a: ")));
  const Ended here = RunProgram({"ps-sweep", sweep, "--dir", Path("here"), "--json"});
  EXPECT_EQ(Learned(ended), Learned(here));
}

TEST_F(SshTest, KilledItLeavesNobodyBehindAndGoesOn) {
  const std::string sweep = Sweep(15);
  {
    Process process(Command(sweep, "out", {"--hosts", "a,b"}));
    ASSERT_TRUE(Eventually([&] { return Trains("out"); })) << process.Err();
    EXPECT_THAT(Runs("out"), Not(testing::IsEmpty()));
    kill(process.pid(), SIGKILL);
    process.Wait();
  }
  EXPECT_TRUE(Eventually([&] { return Runs("out").empty(); })) << "orphans";
  const Ended ended = RunProgram(Command(sweep, "out", {"--hosts", "b,a", "--json"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  const Ended here = RunProgram({"ps-sweep", sweep, "--dir", Path("here"), "--json"});
  EXPECT_EQ(Learned(ended), Learned(here));
  const Ended again = RunProgram(Command(sweep, "out", {"--hosts", "a", "--json"}));
  EXPECT_EQ(Learned(again), Learned(ended));
  EXPECT_THAT(again.err, Not(HasSubstr("starts:")));
}

TEST_F(SshTest, CtrlCStopsRunsWithCheckpoints) {
  Process process(Command(Sweep(100000), "out", {"--hosts", "a,b"}));
  ASSERT_TRUE(Eventually([&] { return Trains("out"); })) << process.Err();
  process.Signal(SIGINT);
  const Ended ended = process.Wait();
  EXPECT_EQ(ended.code, 3) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("interrupted"));
  EXPECT_THAT(Runs("out"), testing::IsEmpty());
}

TEST_F(SshTest, ErrorsSayWhatIsWrong) {
  const std::string sweep = Sweep(1);
  const auto fails = [&](const std::vector<std::string>& more, int code, const std::string& text) {
    const Ended ended = RunProgram(Command(sweep, "out", more));
    EXPECT_EQ(ended.code, code);
    EXPECT_THAT(ended.err, HasSubstr(text));
  };
  fails({}, 2, "say --hosts a,b,c");
  fails({"--hosts", "a,-oProxyCommand=x"}, 2, "is no host");
  fails({"--hosts", "a,a"}, 2, "host a is named twice");
  fails({"--hosts", "nobody"}, 1, "none of the hosts can be used:\n  nobody: ssh: connect to host");
  // ssh refuses a host with an unknown key, without a question.
  Write("ssh/known_hosts", "");
  fails({"--hosts", "a"}, 1, "Host key verification failed");
}

// The other end of a connection that stands but is silent.
TEST_F(SshTest, ARunOfWhichNobodyHearsIsStopped) {
  Write("lock", "");
  const std::string command =
      absl::StrCat("mkfifo ", Path("ear"), " && exec 3<>", Path("ear"), " && exec ",
                   ProgramPath("ps-sweep"), " attend --folder ", Path(""), " --lock ", Path("lock"),
                   " --log ", Path("log"), " --silence 1 --grace 1 -- ", ProgramPath("ps-run"), " ",
                   SmallConfig(), " --run-dir ", Path("run"), " --set train.epochs=100000 <&3");
  Process process({"/bin/sh", "-c", command});
  EXPECT_TRUE(process.WaitFor("nothing was heard of ps-sweep any more")) << process.Err();
  EXPECT_EQ(process.Wait().code, 75);
  EXPECT_TRUE(Eventually([&] { return ProcessesThatMention("--run-dir " + Path("run")).empty(); }));
}

}  // namespace
}  // namespace psgd
