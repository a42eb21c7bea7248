// A program under test: started, watched, read and always ended.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace psgd {

// The result of a program.
struct Ended {
  int code = 0;  // -N: signal N ended it
  std::string out;
  std::string err;
};

// The destructor kills the program with all its children. Not thread-safe.
class Process {
 public:
  // argv[0] is a program of the build ("ps-run") or a path.
  explicit Process(std::vector<std::string> argv);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  bool Running();
  // A program that outlives the deadline is killed, and the test fails.
  Ended Wait(std::chrono::milliseconds deadline = std::chrono::seconds(200));
  void Signal(int signal);

  // The output so far.
  std::string Out() const;
  std::string Err() const;
  // Waits until stdout or stderr has `text`. False: the program ended, or the deadline came first.
  bool WaitFor(const std::string& text,
               std::chrono::milliseconds deadline = std::chrono::seconds(120));

  pid_t pid() const { return pid_; }
  // The program's children that run `program`, oldest first.
  std::vector<pid_t> Children(const std::string& program) const;

 private:
  pid_t pid_ = -1;
  int out_ = -1;  // memory files, which need no reader
  int err_ = -1;
  std::optional<int> status_;
};

// Runs the program to its end.
Ended RunProgram(std::vector<std::string> argv,
                 std::chrono::milliseconds deadline = std::chrono::seconds(200));

std::string ProgramPath(const std::string& name);

// Command lines of processes that mention `text`, to find what a run left behind.
std::vector<std::string> ProcessesThatMention(const std::string& text);
// Command lines of processes with `variable` (NAME=VALUE) in their environment.
std::vector<std::string> ProcessesWith(const std::string& variable);

// Waits until `done` returns true. False: the deadline came first.
template <typename Done>
bool Eventually(Done done, std::chrono::milliseconds deadline = std::chrono::seconds(120));

void Pause(std::chrono::milliseconds time);

template <typename Done>
bool Eventually(Done done, std::chrono::milliseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    Pause(std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace psgd
