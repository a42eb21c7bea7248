#include "common/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/atomic_file.h"
#include "common/open_files.h"

namespace psgd {
namespace {

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

}  // namespace

absl::Status FileError(absl::string_view action, const std::string& path, int error) {
  // RESOURCE_EXHAUSTED is a full disk, for which callers wait.
  const bool too_many_open = error == EMFILE || error == ENFILE;
  return absl::Status(
      too_many_open ? absl::StatusCode::kUnavailable : absl::ErrnoToStatusCode(error),
      absl::StrCat("cannot ", action, " ", path, ": ", std::strerror(error),
                   too_many_open ? absl::StrCat("; ", OpenFilesText()) : NextStep(error)));
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t limit) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError("open", path, errno);
  const auto close_file = absl::MakeCleanup([fd] { close(fd); });
  std::string contents;
  char block[16384];
  for (;;) {
    const ssize_t n = read(fd, block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError("read", path, errno);
    if (n == 0) return contents;
    contents.append(block, static_cast<size_t>(n));
    if (contents.size() > limit) {
      return InvalidArgumentError(path, " is larger than ", limit, " bytes; is it the right file?");
    }
  }
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view contents) {
  PSGD_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(path));
  PSGD_RETURN_IF_ERROR(file->Write(std::as_bytes(std::span(contents.data(), contents.size()))));
  return file->Commit();
}

std::string MountPointOf(const std::string& path) {
  std::error_code error;
  std::filesystem::path at = std::filesystem::absolute(path, error).lexically_normal();
  struct stat status {};
  while (stat(at.c_str(), &status) != 0 && at.has_relative_path()) at = at.parent_path();
  struct stat above {};
  while (at.has_relative_path() && stat(at.parent_path().c_str(), &above) == 0 &&
         above.st_dev == status.st_dev) {
    at = at.parent_path();
  }
  return at.string();
}

}  // namespace psgd
