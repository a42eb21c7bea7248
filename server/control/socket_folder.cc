#include "server/control/socket_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <vector>

#include "common/files.h"
#include "net/address.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "psgd-";
// With our folder and socket below it, a path reaches the limit of a socket's path (108 bytes).
constexpr size_t kLongestBelow = 72;
// A socket that was just made also refuses connections.
constexpr std::time_t kSecondsToListen = 60;

std::string Below() {
  std::error_code error;
  const std::string below = fs::temp_directory_path(error);
  return error || below.size() > kLongestBelow ? "/tmp" : below;
}

// A socket that is not new, and that nobody listens on.
bool IsAbandonedSocket(const std::string& path) {
  struct stat found;
  if (lstat(path.c_str(), &found) != 0 || !S_ISSOCK(found.st_mode) || found.st_uid != geteuid() ||
      std::time(nullptr) - found.st_mtime < kSecondsToListen) {
    return false;
  }
  const auto address = ParseAddress("ipc://" + path);
  if (!address.ok()) return false;
  const auto in_use = IpcInUse(*address);
  return in_use.ok() && !*in_use;
}

// Removes the folder of a server that was killed. A server that returns makes the folder again.
void RemoveIfAbandoned(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> sockets;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    sockets.push_back(it->path());
    if (!IsAbandonedSocket(sockets.back())) return;
  }
  if (error || sockets.empty()) return;
  for (const std::string& path : sockets) unlink(path.c_str());
  rmdir(folder.c_str());  // fails if the folder holds anything else
}

void RemoveAbandonedFolders() {
  std::error_code error;
  for (fs::directory_iterator it(Below(), error), end; !error && it != end; it.increment(error)) {
    const bool ours = it->path().filename().string().rfind(kPrefix, 0) == 0;
    std::error_code unreadable;
    if (ours && it->symlink_status(unreadable).type() == fs::file_type::directory)
      RemoveIfAbandoned(it->path());
  }
}

}  // namespace

absl::StatusOr<SocketFolder> SocketFolder::Create() {
  RemoveAbandonedFolders();
  std::string path = fs::path(Below()) / (std::string(kPrefix) + "XXXXXX");
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
