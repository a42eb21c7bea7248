#include "net/ipc/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "common/open_files.h"

namespace psgd {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

}  // namespace

absl::StatusOr<SharedMemory> SharedMemory::Create(size_t bytes) {
  FileDescriptor fd(::memfd_create("psgd", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.open() || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    const int error = errno;
    const bool files = error == EMFILE || error == ENFILE;
    return UnavailableError("no shared memory of ", bytes, " bytes: ", std::strerror(error),
                            files ? "; " + OpenFilesText() : "");
  }
  PSGD_ASSIGN_OR_RETURN(std::byte* const data, MapInto(fd.get(), bytes));
  return SharedMemory(std::move(fd), data, bytes);
}

absl::StatusOr<SharedMemory> SharedMemory::Map(FileDescriptor fd, size_t bytes) {
  PSGD_ASSIGN_OR_RETURN(std::byte* const data, MapInto(fd.get(), bytes));
  return SharedMemory(FileDescriptor(), data, bytes);
}

absl::StatusOr<std::byte*> SharedMemory::MapInto(int fd, size_t bytes) {
  struct stat info;
  if (::fstat(fd, &info) != 0 || info.st_size != static_cast<off_t>(bytes) ||
      (::fcntl(fd, F_GET_SEALS) & kSeals) != kSeals) {
    return absl::InvalidArgumentError("the shared memory has another size, or could shrink");
  }
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    return UnavailableError("cannot map ", bytes, " bytes: ", std::strerror(errno));
  }
  // Fewer page faults, where the kernel gives shared memory huge pages.
  (void)::madvise(data, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(data);
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace psgd
