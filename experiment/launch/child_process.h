// Starts, watches and ends another program.
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
  std::string stderr_file;        // the file to append to; empty: kept in memory, for StderrTail
  std::vector<int> cores{};       // cores that the child may use; empty: all cores of its parent
  int keep_open = -1;             // a descriptor that the child and its children inherit
  std::vector<std::string>
      environment{};         // NAME=VALUE: in addition to, or in place of, its parent's
  bool logs_output = false;  // standard output goes to stderr_file, too; ReadLine returns nothing
  bool listens = false;      // Say feeds the child's standard input; if false, it is empty
};

// The child gets SIGTERM when the thread that started it ends. The child has a process group of its
// own, so Ctrl-C on the terminal reaches only the parent. It inherits no descriptors that this
// process opened, except its standard streams and `keep_open`. The destructor kills a running
// child, but no process that the child started. Not thread-safe.
class ChildProcess {
 public:
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(ChildOptions options);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  bool Running();
  // Returns false if the child still runs after `timeout`.
  bool WaitEnded(Duration timeout);
  void Signal(int signal);
  // Sends SIGKILL and waits until the child is gone.
  void Kill();
  // Sends a line to a child that listens. The line is lost if the child does not read or is gone.
  // REQUIRES: SIGPIPE is ignored.
  void Say(const std::string& line);

  // Returns the next line of the child's standard output, without its line end. Returns nothing if
  // no line comes within `timeout` or the output has ended. A line beyond 64 KiB loses its
  // beginning; output after the last line end is lost.
  std::optional<std::string> ReadLine(Duration timeout);
  // Returns the last lines of the child's standard error, without what was in the file before.
  std::string StderrTail() const;

  const std::string& name() const { return options_.name; }
  pid_t pid() const { return pid_; }
  // REQUIRES: !Running().
  int exit_code() const;           // -1: a signal ended it
  std::string HowItEnded() const;  // "exited with code 2", "was killed by signal 9 (Killed)"

 private:
  ChildProcess(ChildOptions options, pid_t pid, int stdin_fd, int stdout_fd, int stderr_fd,
               off_t stderr_begins)
      : options_(std::move(options)),
        pid_(pid),
        stdin_fd_(stdin_fd),
        stdout_fd_(stdout_fd),
        stderr_fd_(stderr_fd),
        stderr_begins_(stderr_begins) {}

  const ChildOptions options_;
  const pid_t pid_;
  const int stdin_fd_;  // -1: the child does not listen
  const int stdout_fd_;
  const int stderr_fd_;
  const off_t stderr_begins_;       // bytes that were in the file before
  std::string unread_;              // standard output after the last line
  std::optional<int> wait_status_;  // set once the child has ended
};

// Returns at most `lines` last whole lines of a file, without its first `begins` bytes; empty if
// the file cannot be read.
std::string TailOfFile(const std::string& path, int lines, off_t begins = 0);

}  // namespace psgd
