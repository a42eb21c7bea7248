// Keeps the owner of bytes alive while a C library sends them.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "common/bytes.h"

namespace psgd {

// The sending thread makes it. Any thread of the library may release it, once done with the bytes.
class Handoff {
 public:
  static void* Take(const Bytes& bytes) { return new Handoff(bytes.owner()); }
  static void Release(void* handoff) {
    auto* self = static_cast<Handoff*>(handoff);
    // The library already orders this after Take. The atomic shows that to race detectors, which
    // cannot see inside the library.
    self->taken_.load(std::memory_order_acquire);
    delete self;
  }

 private:
  explicit Handoff(std::shared_ptr<const void> owner) : owner_(std::move(owner)) {
    taken_.store(true, std::memory_order_release);
  }
  ~Handoff() = default;

  const std::shared_ptr<const void> owner_;
  std::atomic<bool> taken_{false};
};

}  // namespace psgd
