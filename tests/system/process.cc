#include "tests/system/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "tests/folders.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

std::string ReadAll(int fd) {
  std::string text(static_cast<size_t>(lseek(fd, 0, SEEK_END)), '\0');
  const ssize_t n = pread(fd, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return text;
}

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

constexpr int kStartField = 22;  // of /proc/PID/stat

struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  uint64_t start = 0;   // ticks since the system's start
  std::string command;  // arguments separated by spaces
};

std::vector<ProcessInfo> AllProcesses() {
  std::vector<ProcessInfo> all;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    ProcessInfo info;
    info.pid = std::stoi(name);
    info.command = ReadFile(entry.path() / "cmdline");
    std::replace(info.command.begin(), info.command.end(), '\0', ' ');
    // "pid (name) state ppid ...": the name may hold anything, so look behind its end.
    const std::string stat = ReadFile(entry.path() / "stat");
    const size_t end = stat.rfind(')');
    if (end == std::string::npos || info.command.empty()) continue;  // gone, or a zombie
    char state = 0;
    std::istringstream fields(stat.substr(end + 1));
    fields >> state >> info.parent;
    std::string skipped;
    for (int field = 5; field < kStartField; ++field) fields >> skipped;
    fields >> info.start;
    if (state != 'Z') all.push_back(info);
  }
  // Numbers begin anew at some point, so they do not tell which process is older.
  std::ranges::sort(all, {},
                    [](const ProcessInfo& info) { return std::pair(info.start, info.pid); });
  return all;
}

void KillTree(pid_t pid) {
  kill(pid, SIGSTOP);  // it must start no more children
  for (const ProcessInfo& info : AllProcesses()) {
    if (info.parent == pid) KillTree(info.pid);
  }
  kill(pid, SIGKILL);
}

}  // namespace

Process::Process(std::vector<std::string> argv)
    : out_(memfd_create("out", MFD_CLOEXEC)), err_(memfd_create("err", MFD_CLOEXEC)) {
  if (argv[0].find('/') == std::string::npos) argv[0] = ProgramPath(argv[0]);
  std::vector<char*> arguments;
  for (std::string& argument : argv) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(out_, STDOUT_FILENO);
    dup2(err_, STDERR_FILENO);
    execv(arguments[0], arguments.data());
    _exit(126);
  }
}

Process::~Process() {
  if (Running()) {
    KillTree(pid_);
    waitpid(pid_, nullptr, 0);
  }
  close(out_);
  close(err_);
}

bool Process::Running() {
  if (status_) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return true;
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return false;
}

Ended Process::Wait(std::chrono::milliseconds deadline) {
  if (!Eventually([&] { return !Running(); }, deadline)) {
    ADD_FAILURE() << "still runs after " << deadline.count() << " ms\n" << Out() << "\n" << Err();
    KillTree(pid_);
    Eventually([&] { return !Running(); }, std::chrono::seconds(5));
  }
  return {status_.value_or(-SIGKILL), Out(), Err()};
}

void Process::Signal(int signal) {
  if (Running()) kill(pid_, signal);
}

std::string Process::Out() const { return ReadAll(out_); }
std::string Process::Err() const { return ReadAll(err_); }

bool Process::WaitFor(const std::string& text, std::chrono::milliseconds deadline) {
  const auto said = [&] {
    return Out().find(text) != std::string::npos || Err().find(text) != std::string::npos;
  };
  Eventually([&] { return said() || !Running(); }, deadline);
  return said();
}

std::vector<pid_t> Process::Children(const std::string& program) const {
  std::vector<pid_t> children;
  for (const ProcessInfo& info : AllProcesses()) {
    if (info.parent == pid_ && info.command.find("/" + program + " ") != std::string::npos) {
      children.push_back(info.pid);
    }
  }
  return children;
}

Ended RunProgram(std::vector<std::string> argv, std::chrono::milliseconds deadline) {
  return Process(std::move(argv)).Wait(deadline);
}

std::string ProgramPath(const std::string& name) { return BuildDir() + "/bin/" + name; }

std::vector<std::string> ProcessesThatMention(const std::string& text) {
  std::vector<std::string> found;
  for (const ProcessInfo& info : AllProcesses()) {
    if (info.pid != getpid() && info.command.find(text) != std::string::npos) {
      found.push_back(info.command);
    }
  }
  return found;
}

std::vector<std::string> ProcessesWith(const std::string& variable) {
  std::vector<std::string> found;
  for (const ProcessInfo& info : AllProcesses()) {
    const std::string environment =
        '\0' + ReadFile("/proc/" + std::to_string(info.pid) + "/environ");
    if (environment.find('\0' + variable + '\0') != std::string::npos)
      found.push_back(info.command);
  }
  return found;
}

void Pause(std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }

}  // namespace psgd
