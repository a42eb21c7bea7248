// Wakes a thread of another process. The thread arms its bell before it sleeps. A peer that has
// something for the thread rings. That costs nothing while the thread is awake.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "common/file_descriptor.h"
#include "common/status.h"
#include "net/ipc/shared_memory.h"

namespace psgd {

class Bell {
 public:
  static absl::StatusOr<Bell> Create();
  // The bell of a peer.
  static absl::StatusOr<Bell> Map(FileDescriptor memory, FileDescriptor event);

  // A peer calls this after it has published something.
  void Ring();

  // The owner calls this: from now on Ring makes fd() readable. Nobody rings for what was published
  // before, so the owner looks once more before it sleeps.
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

  SharedMemory memory_;
  FileDescriptor event_;
};

}  // namespace psgd
