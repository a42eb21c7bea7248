#include "server/socket_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "common/files.h"

namespace psgd {

absl::StatusOr<SocketFolder> SocketFolder::Create() {
  std::string path = "/tmp/psgd-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return FileError("make a folder for Unix sockets", path, errno);
  }
  return SocketFolder(std::move(path));
}

absl::StatusOr<SocketFolder> SocketFolder::Reopen(std::string path) {
  struct stat found;
  if (mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return FileError("make a folder for Unix sockets", path, errno);
  }
  // Not through a link, and nobody else's.
  if (lstat(path.c_str(), &found) != 0) return FileError("look at", path, errno);
  if (!S_ISDIR(found.st_mode) || found.st_uid != geteuid()) {
    return absl::FailedPreconditionError(path + " is not a folder of this user's: remove it");
  }
  return SocketFolder(std::move(path));
}

SocketFolder::~SocketFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace psgd
