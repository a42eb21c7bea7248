#include "experiment/sweep/attend.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/files.h"
#include "experiment/launch/child_process.h"
#include "experiment/plan/resources.h"
#include "experiment/plan/sweep_dir.h"

namespace psgd {
namespace {

constexpr int kTickMilliseconds = 100;
constexpr size_t kLongestLine = 64;

absl::Status Enter(const std::string& folder, const std::string& lock) {
  if (chdir(folder.c_str()) != 0) return FileError("work in the folder", folder, errno);
  if (access(lock.c_str(), F_OK) == 0) return absl::OkStatus();
  return NotFoundError("does not see ", lock,
                       ": the sweep's --dir must be a folder that all hosts "
                       "share, at the same path");
}

// Reads commands on standard input.
class Ear {
 public:
  Ear() : heard_at_(SteadyNow()) { fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK); }

  // Waits briefly. Returns how often ps-sweep asked to stop meanwhile.
  int Listen() {
    pollfd ready{closed_ ? -1 : STDIN_FILENO, POLLIN, 0};
    if (poll(&ready, 1, kTickMilliseconds) <= 0) return 0;
    char block[256];
    const ssize_t n = read(STDIN_FILENO, block, sizeof block);
    if (n < 0) return 0;
    closed_ = n == 0;
    if (n > 0) heard_at_ = SteadyNow();
    int stops = 0;
    for (ssize_t i = 0; i < n; ++i) {
      if (block[i] == '\n') {
        stops += line_ == kAttendStop ? 1 : 0;
        line_.clear();
      } else if (line_.size() < kLongestLine) {
        line_ += block[i];
      }
    }
    return stops;
  }

  bool Alone(Duration silence) const { return closed_ || SteadyNow() - heard_at_ > silence; }

 private:
  bool closed_ = false;
  Time heard_at_;
  std::string line_;
};

// Ends an abandoned run: first with a checkpoint, then without, then by SIGKILL.
class Ending {
 public:
  explicit Ending(Duration grace) : grace_(grace) {}

  bool began() const { return asked_ > 0; }

  void Look(ChildProcess* child) {
    const Time now = SteadyNow();
    if (asked_ > 0 && now - last_ < grace_) return;
    last_ = now;
    ++asked_;
    if (asked_ <= 2) {
      child->Signal(SIGINT);
    } else {
      child->Kill();
    }
  }

 private:
  const Duration grace_;
  int asked_ = 0;
  Time last_{};
};

void AppendLine(const std::string& file, const std::string& line) {
  const int fd = open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd < 0) return;
  const std::string text = line + "\n";
  (void)!write(fd, text.data(), text.size());
  close(fd);
}

}  // namespace

absl::StatusOr<int> Attend(const AttendOptions& options) {
  PSGD_RETURN_IF_ERROR(Enter(options.folder, options.lock));
  PSGD_ASSIGN_OR_RETURN(const std::unique_ptr<HeldLock> lock, HeldLock::Try(options.lock));
  if (lock == nullptr) {
    return UnavailableError("processes of this run still live somewhere: ", options.lock,
                            " is held");
  }
  ChildOptions child;
  child.name = "ps-run";
  child.argv = options.command;
  child.stderr_file = options.log;
  child.cores = options.cores;
  child.keep_open = lock->descriptor();
  PSGD_ASSIGN_OR_RETURN(const std::unique_ptr<ChildProcess> process,
                        ChildProcess::Start(std::move(child)));
  Ear ear;
  Ending ending(options.grace);
  int passed_on = 0;
  while (process->Running()) {
    for (int stops = ear.Listen(); stops > 0; --stops) process->Signal(SIGINT);
    for (; options.stops != nullptr && passed_on < *options.stops; ++passed_on)
      process->Signal(SIGINT);
    if (ear.Alone(options.silence)) ending.Look(process.get());
  }
  if (ending.began()) {
    return absl::UnavailableError(
        "nothing was heard of ps-sweep any more, so that the run was stopped");
  }
  if (process->exit_code() >= 0) return process->exit_code();
  AppendLine(options.log, absl::StrCat("ps-run: ", process->HowItEnded()));
  return 1;
}

absl::StatusOr<std::string> ProbeHost(const std::string& folder, const std::string& lock) {
  PSGD_RETURN_IF_ERROR(Enter(folder, lock));
  PSGD_ASSIGN_OR_RETURN(const std::unique_ptr<HeldLock> held, HeldLock::Try(lock));
  if (held == nullptr) return absl::StrJoin(OwnCores(), ",");
  return FailedPreconditionError("does not see that ", lock,
                                 " is locked: its file system has locks of its own "
                                 "(NFS has common ones; Lustre with -o flock; sshfs has not)");
}

}  // namespace psgd
