// A file descriptor that closes itself.
#pragma once

#include <unistd.h>

#include <utility>

namespace psgd {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  // It stays open, and is the caller's to close.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace psgd
