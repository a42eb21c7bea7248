// A program under test: started, watched, read and always ended.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace psgd {

// What came of a program.
struct Ended {
  int code = 0;  // -N: signal N ended it
  std::string out;
  std::string err;
};

// Killed, with all its children, when it goes out of scope. Not thread-safe.
class Process {
 public:
  // argv[0] is a program of the build ("ps-run") or a path.
  explicit Process(std::vector<std::string> argv);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  bool Running();
  // A program that outlives the deadline is a test failure, and killed.
  Ended Wait(std::chrono::milliseconds deadline = std::chrono::seconds(200));
  void Signal(int signal);

  // What it wrote so far.
  std::string Out() const;
  std::string Err() const;
  // Until its output (of either kind) holds `text`; false: it ended, or the deadline came, without.
  bool WaitFor(const std::string& text,
               std::chrono::milliseconds deadline = std::chrono::seconds(120));

  pid_t pid() const { return pid_; }
  // Its children that run `program`, oldest first.
  std::vector<pid_t> Children(const std::string& program) const;

 private:
  pid_t pid_ = -1;
  int out_ = -1;  // memory files, so that nobody has to drain them
  int err_ = -1;
  std::optional<int> status_;
};

// Runs it to its end.
Ended RunProgram(std::vector<std::string> argv,
                 std::chrono::milliseconds deadline = std::chrono::seconds(200));

std::string ProgramPath(const std::string& name);

// Command lines of processes that mention `text`: what a run left behind.
std::vector<std::string> ProcessesThatMention(const std::string& text);
// Those that were started with it in their environment, as NAME=VALUE.
std::vector<std::string> ProcessesWith(const std::string& variable);

// Until `done` says so; false: it never did.
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
