#include "common/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"

namespace psgd {
namespace {

// Makes a rename in this folder survive a power failure. Some file systems cannot sync a folder and
// do not need it, so errors are ignored.
void SyncFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder(slash == std::string::npos ? "." : path.substr(0, slash + 1));
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

bool GoesTo(int descriptor, const struct stat& file) {
  struct stat own {};
  return ::fstat(descriptor, &own) == 0 && own.st_dev == file.st_dev && own.st_ino == file.st_ino;
}

// The descriptor of this process's output that goes to this file, or -1. A file that was opened
// again would have its own position, and could lose what `>>` has kept.
int OwnOutput(const struct stat& file) {
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    if (GoesTo(descriptor, file)) return descriptor;
  }
  return -1;
}

bool IsDeviceOrPipe(const struct stat& file) {
  return !S_ISREG(file.st_mode) && !S_ISDIR(file.st_mode);
}

absl::StatusOr<int> OpenDirectly(const std::string& path, int own_output) {
  if (own_output >= 0) std::fflush(stdout);  // what was printed before comes first
  const int descriptor = own_output >= 0 ? ::fcntl(own_output, F_DUPFD_CLOEXEC, 0)
                                         : ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  if (descriptor < 0) return FileError("open", path, errno);
  return descriptor;
}

// Follows the links at the end of the path, also to a file that is not there yet.
absl::StatusOr<std::string> BehindLinks(const std::string& path) {
  constexpr int kMostLinks = 40;  // as Linux
  std::filesystem::path target = path;
  std::error_code error;
  for (int links = 0; std::filesystem::is_symlink(target, error); ++links) {
    if (links == kMostLinks) return FileError("open", path, ELOOP);
    target = target.parent_path() / std::filesystem::read_symlink(target, error);
    if (error) return FileError("open", path, error.value());
  }
  return target.string();
}

}  // namespace

bool IsWrittenDirectly(const std::string& path) {
  struct stat file {};
  return ::stat(path.c_str(), &file) == 0 && (IsDeviceOrPipe(file) || OwnOutput(file) >= 0);
}

bool IsStandardOutput(const std::string& path) {
  struct stat file {};
  return ::stat(path.c_str(), &file) == 0 && GoesTo(STDOUT_FILENO, file);
}

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(const std::string& path) {
  struct stat file {};
  if (::stat(path.c_str(), &file) == 0) {
    const int own_output = OwnOutput(file);
    if (own_output >= 0 || IsDeviceOrPipe(file)) {
      PSGD_ASSIGN_OR_RETURN(const int descriptor, OpenDirectly(path, own_output));
      return std::unique_ptr<AtomicFile>(new AtomicFile(path, "", descriptor));
    }
  }
  PSGD_ASSIGN_OR_RETURN(const std::string target, BehindLinks(path));
  const std::string temporary = absl::StrCat(target, ".tmp", ::getpid());
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) return FileError("create", temporary, errno);
  return std::unique_ptr<AtomicFile>(new AtomicFile(target, temporary, descriptor));
}

AtomicFile::AtomicFile(const std::string& path, const std::string& temporary, int descriptor)
    : path_(path), temporary_(temporary), descriptor_(descriptor) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (replaces() && !committed_) ::unlink(temporary_.c_str());
}

absl::Status AtomicFile::Write(ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError("write", written(), errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  if (replaces() && ::fsync(descriptor_) != 0) return FileError("write", temporary_, errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) return FileError("write", written(), errno);
  if (!replaces()) return absl::OkStatus();
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return FileError("replace", path_, errno);
  }
  committed_ = true;
  SyncFolderOf(path_);
  return absl::OkStatus();
}

}  // namespace psgd
