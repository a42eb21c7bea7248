// A private folder for Unix sockets, which no other user may enter. This object removes it at its
// end. The run directory does not serve: a socket's path has at most 107 characters.
#pragma once

#include <string>
#include <utility>

#include "common/status.h"

namespace psgd {

class SocketFolder {
 public:
  // Makes a folder below /tmp, and removes those of this user's servers that were killed and did
  // not return.
  static absl::StatusOr<SocketFolder> Create();
  ~SocketFolder();
  SocketFolder(SocketFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  SocketFolder& operator=(SocketFolder&&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit SocketFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace psgd
