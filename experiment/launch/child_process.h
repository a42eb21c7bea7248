// Another program, started, watched and ended.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"

namespace psgd {

struct ChildOptions {
  std::string name;               // for people: "worker-1"
  std::vector<std::string> argv;  // the first is the program's path
  std::string stderr_file;        // appended to; empty: kept in memory, for StderrTail
  std::vector<int> cores{};       // that it may run on; empty: all that its parent may
  int keep_open = -1;             // a descriptor that it and its children have, too
  bool listens = false;           // its standard input is what Say says, not nothing
};

// A child reads nothing unless it listens, ends (SIGTERM) when the thread that started it ends, and
// is in a process group of its own, so that Ctrl-C on the terminal reaches only the parent, who
// decides. Still running when this object goes, it is killed. Not thread-safe.
class ChildProcess {
 public:
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(ChildOptions options);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  bool Running();
  // False: it still runs after so long.
  bool WaitEnded(Duration timeout);
  void Signal(int signal);
  // SIGKILL, and waits until it is gone.
  void Kill();
  // A line for a child that listens; lost where it does not read, or is gone. REQUIRES: SIGPIPE is
  // ignored.
  void Say(const std::string& line);

  // The next line of its standard output, without its end. Nothing: none came within `timeout`, or
  // the output ended.
  std::optional<std::string> ReadLine(Duration timeout);
  // The last lines of what it wrote to standard error.
  std::string StderrTail() const;

  const std::string& name() const { return options_.name; }
  pid_t pid() const { return pid_; }
  // REQUIRES: !Running().
  int exit_code() const;           // -1: a signal ended it
  std::string HowItEnded() const;  // "exited with code 2", "was killed by signal 9 (Killed)"

 private:
  ChildProcess(ChildOptions options, pid_t pid, int stdin_fd, int stdout_fd, int stderr_fd)
      : options_(std::move(options)),
        pid_(pid),
        stdin_fd_(stdin_fd),
        stdout_fd_(stdout_fd),
        stderr_fd_(stderr_fd) {}

  const ChildOptions options_;
  const pid_t pid_;
  const int stdin_fd_;  // -1: it does not listen
  const int stdout_fd_;
  const int stderr_fd_;
  std::string unread_;              // standard output after the last line
  std::optional<int> wait_status_;  // once it ended
};

// The last whole lines of a file, at most so many; empty when it cannot be read.
std::string TailOfFile(const std::string& path, int lines);

}  // namespace psgd
