#include "net/ipc/bell.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/open_files.h"

namespace psgd {
namespace {

constexpr size_t kBytes = 4096;  // a page

}  // namespace

absl::StatusOr<Bell> Bell::Create() {
  PSGD_ASSIGN_OR_RETURN(SharedMemory memory, SharedMemory::Create(kBytes));
  FileDescriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.open()) {
    return UnavailableError("no eventfd: ", std::strerror(errno), "; ", OpenFilesText());
  }
  return Bell(std::move(memory), std::move(event));
}

absl::StatusOr<Bell> Bell::Map(FileDescriptor memory, FileDescriptor event) {
  PSGD_ASSIGN_OR_RETURN(SharedMemory mapped, SharedMemory::Map(std::move(memory), kBytes));
  return Bell(std::move(mapped), std::move(event));
}

void Bell::Ring() {
  // Orders what was published before the look at the flag, as Arm orders the flag before the look
  // at what was published.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (armed().load(std::memory_order_relaxed) == 0 || armed().exchange(0) == 0) return;
  const uint64_t one = 1;
  (void)!::write(event_.get(), &one, sizeof(one));
}

void Bell::Arm() {
  armed().store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Bell::Disarm() {
  if (armed().exchange(0) == 0) Drain();  // somebody rang
}

void Bell::Drain() {
  uint64_t count = 0;
  (void)!::read(event_.get(), &count, sizeof(count));
}

}  // namespace psgd
