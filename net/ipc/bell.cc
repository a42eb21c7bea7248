#include "net/ipc/bell.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/open_files.h"

namespace psgd {
namespace {

constexpr size_t kBytes = 4096;  // a page
constexpr size_t kMarksAt = 64;  // not in the line of the flag
static_assert(kMarksAt + Bell::kMostLinks / LinkSet::kWord * sizeof(uint64_t) <= kBytes);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

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

std::atomic<uint64_t>& Bell::marks(size_t word) const {
  return reinterpret_cast<std::atomic<uint64_t>*>(memory_.data() + kMarksAt)[word];
}

void Bell::Ring(size_t link) {
  marks(link / LinkSet::kWord)
      .fetch_or(uint64_t{1} << link % LinkSet::kWord, std::memory_order_release);
  // Orders the mark before the look at the flag, as Arm orders the flag before the look at the
  // marks.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (armed().load(std::memory_order_relaxed) == 0 || armed().exchange(0) == 0) return;
  const uint64_t one = 1;
  (void)!::write(event_.get(), &one, sizeof(one));
}

bool Bell::AnyMarked(const LinkSet& links) const {
  for (size_t i = 0; i < links.words().size(); ++i) {
    if (marks(i).load(std::memory_order_relaxed) != 0) return true;
  }
  return false;
}

void Bell::TakeMarks(LinkSet* links) {
  for (size_t i = 0; i < links->words().size(); ++i) {
    if (marks(i).load(std::memory_order_relaxed) == 0) continue;
    links->words()[i] |= marks(i).exchange(0, std::memory_order_acquire);
  }
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
