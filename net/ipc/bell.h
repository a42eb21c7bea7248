// Wakes a thread of another process, and tells it which links to look at. The thread arms its bell
// before it sleeps. A peer that has something for the thread marks the link and rings. That costs
// little while the thread is awake.
//
// All peers share the page of a bell. A peer that breaks the rules may set and clear marks of
// others. So a mark is only a hint, and the owner also looks at all links at times.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "common/file_descriptor.h"
#include "common/status.h"
#include "net/ipc/link_set.h"
#include "net/ipc/shared_memory.h"

namespace psgd {

class Bell {
 public:
  static constexpr size_t kMostLinks = 8192;

  static absl::StatusOr<Bell> Create();
  // The bell of a peer.
  static absl::StatusOr<Bell> Map(FileDescriptor memory, FileDescriptor event);

  // A peer calls this after it has published something on that link of the owner.
  void Ring(size_t link);

  // By the owner. Whether a link within the set's room is marked.
  bool AnyMarked(const LinkSet& links) const;
  // By the owner. Moves the marks into the set, as far as it has room. The owner then sees what was
  // published before a mark that moves. The owner looks at a link after its mark is gone, so
  // anything published too late for that look is marked again.
  void TakeMarks(LinkSet* links);

  // The owner calls this: from now on Ring makes fd() readable. Nobody rings for what was published
  // before, so the owner looks at the marks once more before it sleeps.
  void Arm();
  void Disarm();
  // Whether nobody rang since Arm. A peer that broke the rules may make this wrong, but not fd().
  bool IsArmed() const { return armed().load(std::memory_order_acquire) != 0; }
  // Makes fd() not readable. A ring may come late, when the owner is awake again.
  void Drain();

  int fd() const { return event_.get(); }
  int memory_fd() const { return memory_.fd(); }

 private:
  Bell(SharedMemory memory, FileDescriptor event)
      : memory_(std::move(memory)), event_(std::move(event)) {}
  std::atomic<uint32_t>& armed() const {
    return *reinterpret_cast<std::atomic<uint32_t>*>(memory_.data());
  }
  // Of the links of that word of a LinkSet.
  std::atomic<uint64_t>& marks(size_t word) const;

  SharedMemory memory_;
  FileDescriptor event_;
};

}  // namespace psgd
