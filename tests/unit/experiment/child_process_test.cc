#include "experiment/launch/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "common/file_descriptor.h"

namespace psgd {
namespace {

using namespace std::chrono_literals;

std::unique_ptr<ChildProcess> Shell(const std::string& script) {
  auto child = ChildProcess::Start({"child", {"/bin/sh", "-c", script}, ""});
  EXPECT_TRUE(child.ok()) << child.status();
  return *std::move(child);
}

TEST(ChildProcess, SaysHowItEnded) {
  auto done = Shell("exit 3");
  ASSERT_TRUE(done->WaitEnded(10s));
  EXPECT_EQ(done->exit_code(), 3);
  EXPECT_EQ(done->HowItEnded(), "exited with code 3");

  auto killed = Shell("sleep 60");
  EXPECT_TRUE(killed->Running());
  EXPECT_FALSE(killed->WaitEnded(30ms));
  killed->Kill();
  EXPECT_FALSE(killed->Running());
  EXPECT_EQ(killed->exit_code(), -1);
  EXPECT_EQ(killed->HowItEnded(), "was killed by signal 9 (Killed)");
}

TEST(ChildProcess, HearsWhatIsSaidIfItListens) {
  signal(SIGPIPE, SIG_IGN);
  ChildOptions options;
  options.name = "echo";
  options.argv = {"/bin/sh", "-c", "read -r a; read -r b; echo \"$b $a\"; exec sleep 60"};
  options.listens = true;
  auto child = ChildProcess::Start(std::move(options));
  ASSERT_TRUE(child.ok()) << child.status();
  (*child)->Say("one");
  (*child)->Say("two");
  EXPECT_EQ((*child)->ReadLine(10s), "two one");
  (*child)->Kill();
  (*child)->Say("nobody is there");  // the line is lost
  EXPECT_EQ(Shell("read -r a || echo nothing")->ReadLine(10s), "nothing");
}

TEST(ChildProcess, ReadsLinesAsTheyCome) {
  auto child = Shell("echo one; echo two; printf rest; sleep 60");
  EXPECT_EQ(child->ReadLine(10s), "one");
  EXPECT_EQ(child->ReadLine(10s), "two");
  EXPECT_EQ(child->ReadLine(30ms), std::nullopt) << "a line without its end";
}

TEST(ChildProcess, KeepsTheLastWords) {
  auto child = Shell("for i in $(seq 100); do echo line $i; done >&2");
  ASSERT_TRUE(child->WaitEnded(10s));
  const std::string tail = child->StderrTail();
  EXPECT_EQ(tail.rfind("line 91\n", 0), 0u) << tail;
  EXPECT_EQ(tail.substr(tail.size() - 8), "line 100");
}

TEST(ChildProcess, AnEarlierChildsWordsAreNotItsOwn) {
  const std::string file = testing::TempDir() + "words";
  std::ofstream(file) << "earlier\n";
  const auto child = ChildProcess::Start({"child", {"/bin/sh", "-c", "echo late >&2"}, file});
  ASSERT_TRUE(child.ok()) << child.status();
  ASSERT_TRUE((*child)->WaitEnded(10s));
  EXPECT_EQ((*child)->StderrTail(), "late");
}

TEST(ChildProcess, AProgramThatIsNotThereIsAnError) {
  const auto child = ChildProcess::Start({"child", {"/no/such/program"}, ""});
  ASSERT_FALSE(child.ok());
  EXPECT_NE(child.status().message().find("/no/such/program"), std::string::npos);
}

TEST(ChildProcess, IsKilledWithItsObject) {
  pid_t pid = 0;
  {
    auto child = Shell("sleep 60");
    pid = child->pid();
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_NE(kill(pid, 0), 0);
}

TEST(ChildProcess, TerminalSignalsDoNotReachIt) {
  auto child = Shell("sleep 60");
  EXPECT_NE(getpgid(child->pid()), getpgid(0));
}

// A child that kept the link of a process would keep it when that process is dead.
TEST(ChildProcess, InheritsOnlyWhatItIsGiven) {
  // The numbers of its descriptors.
  const auto open_in = [](ChildOptions options) {
    options.name = "child";
    options.argv = {"/bin/sh", "-c", "cd /proc/$$/fd; echo *"};
    const auto child = ChildProcess::Start(std::move(options));
    EXPECT_TRUE(child.ok()) << child.status();
    return child.ok() ? (*child)->ReadLine(10s) : std::nullopt;
  };
  const auto alone = open_in({});
  ASSERT_TRUE(alone.has_value());
  ChildOptions listens;
  listens.name = "other";
  listens.argv = {"/bin/sh", "-c", "exec sleep 60"};
  listens.listens = true;
  const auto other = ChildProcess::Start(std::move(listens));
  ASSERT_TRUE(other.ok()) << other.status();
  // As libraries do, without O_CLOEXEC.
  const FileDescriptor link(::socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_TRUE(link.open());
  EXPECT_EQ(open_in({}), alone);
  EXPECT_NE(open_in({.keep_open = link.get()}), alone);
}

// As a job in the background of a script.
TEST(ChildProcess, StopsThoughItsParentIgnoresInterrupts) {
  const auto before = signal(SIGINT, SIG_IGN);
  auto child = Shell("exec sleep 60");
  child->Signal(SIGINT);
  EXPECT_TRUE(child->WaitEnded(10s));
  signal(SIGINT, before);
}

TEST(TailOfFile, OfWhatThereIs) {
  EXPECT_EQ(TailOfFile("/no/such/file", 3), "");
  const std::string path = testing::TempDir() + "tail";
  std::ofstream(path) << "a\nb\nc\n";
  EXPECT_EQ(TailOfFile(path, 2), "b\nc");
  EXPECT_EQ(TailOfFile(path, 9), "a\nb\nc");
  EXPECT_EQ(TailOfFile(path, 9, 2), "b\nc");
  EXPECT_EQ(TailOfFile(path, 9, 6), "");
  EXPECT_EQ(TailOfFile(path, 9, 7), "a\nb\nc") << "the file has become shorter";
  std::ofstream(path) << std::string(100000, 'x');
  EXPECT_FALSE(TailOfFile(path, 2).empty());
}

}  // namespace
}  // namespace psgd
