// A folder of its own for Unix sockets, that nobody else may enter and that goes with this object.
// Not the run directory: a socket's path has at most 107 characters.
#pragma once

#include <string>
#include <utility>

#include "common/status.h"

namespace psgd {

class SocketFolder {
 public:
  // Below /tmp. Those of this user's servers that were killed, and did not come back, go.
  static absl::StatusOr<SocketFolder> Create();
  // The one that an earlier process left behind, or made anew.
  static absl::StatusOr<SocketFolder> Reopen(std::string path);
  ~SocketFolder();
  SocketFolder(SocketFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  SocketFolder& operator=(SocketFolder&&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit SocketFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace psgd
