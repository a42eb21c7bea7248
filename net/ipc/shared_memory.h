// Memory that processes share: it has no name, and lives until the last of them is done with it.
#pragma once

#include <cstddef>
#include <utility>

#include "common/file_descriptor.h"
#include "common/status.h"

namespace psgd {

class SharedMemory {
 public:
  // Makes memory of zeros. A page takes room only once it is written.
  static absl::StatusOr<SharedMemory> Create(size_t bytes);
  // Maps memory that a peer made, and closes `fd`. INVALID_ARGUMENT: it has another size, or could
  // shrink.
  static absl::StatusOr<SharedMemory> Map(FileDescriptor fd, size_t bytes);
  ~SharedMemory();
  SharedMemory(SharedMemory&& other) noexcept
      : fd_(std::move(other.fd_)), data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
  SharedMemory& operator=(SharedMemory&&) = delete;

  int fd() const { return fd_.get(); }  // of memory made here; a peer's has none
  std::byte* data() const { return data_; }

 private:
  static absl::StatusOr<std::byte*> MapInto(int fd, size_t bytes);
  SharedMemory(FileDescriptor fd, std::byte* data, size_t size)
      : fd_(std::move(fd)), data_(data), size_(size) {}

  FileDescriptor fd_;
  std::byte* data_;
  size_t size_;
};

}  // namespace psgd
