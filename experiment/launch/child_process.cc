#include "experiment/launch/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/file_descriptor.h"
#include "common/files.h"

namespace psgd {
namespace {

constexpr off_t kTailBytes = 8192;
constexpr int kTailLines = 10;
constexpr size_t kLongestLine = size_t{1} << 16;
constexpr Duration kLookAgain = std::chrono::milliseconds(10);

// The open descriptors that go to children.
std::vector<int> Inheritable() {
  std::vector<int> all;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error), end; !error && at != end;
       at.increment(error)) {
    int number = 0;
    if (absl::SimpleAtoi(at->path().filename().string(), &number)) all.push_back(number);
  }
  // The folder itself is closed by now.
  std::erase_if(all, [](int number) { return fcntl(number, F_GETFD) != 0; });
  std::ranges::sort(all);
  return all;
}

// Made before main opens anything. The parent left them open for this process and its children: a
// lock of a sweep is held while any process of a run lives.
const std::vector<int> kInherited = Inheritable();

// Libraries open sockets without O_CLOEXEC. A child that kept one would keep the link of a dead
// process. Runs in the child before exec.
void KeepOnlyInherited() {
  int from = STDERR_FILENO + 1;
  for (const int kept : kInherited) {
    if (kept < from) continue;
    if (kept > from) {
      close_range(static_cast<unsigned>(from), static_cast<unsigned>(kept - 1),
                  CLOSE_RANGE_CLOEXEC);
    }
    from = kept + 1;
  }
  close_range(static_cast<unsigned>(from), ~0u, CLOSE_RANGE_CLOEXEC);
}

absl::Status MakePipe(FileDescriptor* read_end, FileDescriptor* write_end) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot make a pipe");
  *read_end = FileDescriptor(fds[0]);
  *write_end = FileDescriptor(fds[1]);
  return absl::OkStatus();
}

// Runs in the child between fork and exec, where only system calls are safe.
[[noreturn]] void BecomeProgram(char* const* argv, char* const* environment, pid_t parent, int in,
                                int out, int err, int failure, const cpu_set_t* cores,
                                int keep_open) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // Jobs in the background of a script ignore SIGINT. If the child ignored it, too, a stop that
  // comes before the child handles SIGINT would be lost.
  for (const int number : {SIGINT, SIGPIPE, SIGTERM}) signal(number, SIG_DFL);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);   // before exec, so that the child is never unwatched
  if (getppid() != parent) _exit(1);  // the parent died before the call above
  // A core may be missing or taken by another program. The child runs all the same.
  if (CPU_COUNT(cores) > 0) sched_setaffinity(0, sizeof *cores, cores);
  KeepOnlyInherited();
  if (keep_open >= 0) fcntl(keep_open, F_SETFD, 0);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  execve(argv[0], argv, environment);
  const int error = errno;
  (void)!write(failure, &error, sizeof error);
  _exit(127);
}

// This process's environment with other values. Valid as long as `changed` is.
std::vector<char*> EnvironmentWith(const std::vector<std::string>& changed) {
  const auto name = [](absl::string_view entry) { return entry.substr(0, entry.find('=')); };
  std::vector<char*> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const bool replaced = std::ranges::any_of(
        changed, [&](const std::string& by) { return name(by) == name(*entry); });
    if (!replaced) all.push_back(*entry);
  }
  for (const std::string& entry : changed) all.push_back(const_cast<char*>(entry.c_str()));
  all.push_back(nullptr);
  return all;
}

std::string Tail(int fd, int lines, off_t begins) {
  const off_t size = lseek(fd, 0, SEEK_END);
  if (size < begins) begins = 0;  // somebody has emptied the file
  const off_t start = std::max(begins, size - kTailBytes);
  std::string text(static_cast<size_t>(std::max<off_t>(0, size - start)), '\0');
  const ssize_t n = pread(fd, text.data(), text.size(), start);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::vector<absl::string_view> all = absl::StrSplit(text, '\n');
  if (start > begins && all.size() > 1) all.erase(all.begin());  // the rest of a cut line
  const auto kept = std::min<size_t>(all.size(), static_cast<size_t>(lines));
  return absl::StrJoin(all.end() - static_cast<ptrdiff_t>(kept), all.end(), "\n");
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(ChildOptions options) {
  FileDescriptor out_read, out_write, failed_read, failed_write;
  PSGD_RETURN_IF_ERROR(MakePipe(&out_read, &out_write));
  PSGD_RETURN_IF_ERROR(MakePipe(&failed_read, &failed_write));
  FileDescriptor in, in_write;
  if (options.listens) {
    PSGD_RETURN_IF_ERROR(MakePipe(&in, &in_write));
    fcntl(in_write.get(), F_SETFL, O_NONBLOCK);
  } else {
    in = FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  FileDescriptor err(
      options.stderr_file.empty()
          ? memfd_create("stderr", MFD_CLOEXEC)
          : open(options.stderr_file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (err.get() < 0) {
    return FileError("open", options.stderr_file.empty() ? "memory" : options.stderr_file, errno);
  }
  const off_t begins = std::max<off_t>(0, lseek(err.get(), 0, SEEK_END));
  std::vector<char*> argv;
  for (const std::string& argument : options.argv)
    argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const std::vector<char*> environment = EnvironmentWith(options.environment);

  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (const int core : options.cores) CPU_SET(core, &cores);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot start ", options.name));
  }
  if (pid == 0) {
    BecomeProgram(argv.data(), environment.data(), parent, in.get(),
                  options.logs_output ? err.get() : out_write.get(), err.get(), failed_write.get(),
                  &cores, options.keep_open);
  }
  failed_write = FileDescriptor();
  int error = 0;
  if (read(failed_read.get(), &error, sizeof error) == sizeof error) {
    waitpid(pid, nullptr, 0);
    return FileError("start", options.argv.front(), error);
  }
  return std::unique_ptr<ChildProcess>(new ChildProcess(std::move(options), pid, in_write.release(),
                                                        out_read.release(), err.release(), begins));
}

ChildProcess::~ChildProcess() {
  if (Running()) Kill();
  if (stdin_fd_ >= 0) close(stdin_fd_);
  close(stdout_fd_);
  close(stderr_fd_);
}

bool ChildProcess::Running() {
  if (wait_status_) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return true;
  wait_status_ = status;
  return false;
}

bool ChildProcess::WaitEnded(Duration timeout) {
  const Time start = SteadyNow();
  while (Running()) {
    if (SteadyNow() - start >= timeout) return false;
    std::this_thread::sleep_for(kLookAgain);
  }
  return true;
}

void ChildProcess::Signal(int signal) {
  // The pid stays reserved until waitpid returns the child.
  if (Running()) kill(pid_, signal);
}

void ChildProcess::Kill() {
  if (!Running()) return;
  kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  wait_status_ = status;
}

void ChildProcess::Say(const std::string& line) {
  const std::string text = line + "\n";
  (void)!write(stdin_fd_, text.data(), text.size());
}

std::optional<std::string> ChildProcess::ReadLine(Duration timeout) {
  const Time start = SteadyNow();
  while (true) {
    if (const size_t end = unread_.find('\n'); end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    if (unread_.size() > kLongestLine) unread_.clear();
    const Duration left = std::max(Duration::zero(), timeout - (SteadyNow() - start));
    pollfd ready{stdout_fd_, POLLIN, 0};
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    if (poll(&ready, 1, static_cast<int>(milliseconds)) <= 0) return std::nullopt;
    char block[4096];
    const ssize_t n = read(stdout_fd_, block, sizeof block);
    if (n <= 0) return std::nullopt;
    unread_.append(block, static_cast<size_t>(n));
  }
}

std::string ChildProcess::StderrTail() const {
  return Tail(stderr_fd_, kTailLines, stderr_begins_);
}

int ChildProcess::exit_code() const {
  return WIFEXITED(*wait_status_) ? WEXITSTATUS(*wait_status_) : -1;
}

std::string ChildProcess::HowItEnded() const {
  if (WIFEXITED(*wait_status_)) return absl::StrCat("exited with code ", exit_code());
  const int signal = WTERMSIG(*wait_status_);
  return absl::StrCat("was killed by signal ", signal, " (", strsignal(signal), ")");
}

std::string TailOfFile(const std::string& path, int lines, off_t begins) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file.get() < 0 ? "" : Tail(file.get(), lines, begins);
}

}  // namespace psgd
