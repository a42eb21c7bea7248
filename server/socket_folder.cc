#include "server/socket_folder.h"

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

SocketFolder::~SocketFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace psgd
