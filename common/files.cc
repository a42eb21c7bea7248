#include "common/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

// Closes on every way out.
class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() { Close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }
  bool Close() {
    const bool closed = fd_ < 0 || close(fd_) == 0;
    fd_ = -1;
    return closed;
  }

 private:
  int fd_;
};

absl::string_view NextStep(int error) {
  switch (error) {
    case EACCES:
    case EPERM:
      return "; check who owns it and its permissions";
    case EROFS:
      return "; choose a place that can be written";
    case ENOSPC:
    case EDQUOT:
      return "; free some space or choose another disk";
    case ENOENT:
      return "; check the spelling and the folder it is relative to";
    case ENOTDIR:
      return "; a part of the path is a file, not a folder";
    default:
      return "";
  }
}

bool WriteAll(int fd, absl::string_view data) {
  while (!data.empty()) {
    const ssize_t n = write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    data.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// Makes a rename in this folder durable. Some file systems cannot sync a folder; they need not.
void SyncFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const File file(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.fd() >= 0) fsync(file.fd());
}

}  // namespace

absl::Status FileError(absl::string_view action, const std::string& path, int error) {
  return absl::Status(
      absl::ErrnoToStatusCode(error),
      absl::StrCat("cannot ", action, " ", path, ": ", std::strerror(error), NextStep(error)));
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t limit) {
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) return FileError("open", path, errno);
  std::string contents;
  char block[16384];
  for (;;) {
    const ssize_t n = read(file.fd(), block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError("read", path, errno);
    if (n == 0) return contents;
    contents.append(block, static_cast<size_t>(n));
    if (contents.size() > limit) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " is larger than ", limit, " bytes; is it the right file?"));
    }
  }
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view contents) {
  const std::string temporary = absl::StrCat(path, ".tmp", getpid());
  File file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.fd() < 0) return FileError("create", temporary, errno);
  if (!WriteAll(file.fd(), contents) || fsync(file.fd()) != 0 || !file.Close()) {
    const int error = errno;
    unlink(temporary.c_str());
    return FileError("write", temporary, error);
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(temporary.c_str());
    return FileError("replace", path, error);
  }
  SyncFolderOf(path);
  return absl::OkStatus();
}

}  // namespace psgd
