// An eventfd that ends a poll.
#pragma once

#include <atomic>

namespace psgd {

// Set is thread-safe; the rest belongs to the polling thread.
class WakeEvent {
 public:
  WakeEvent();
  ~WakeEvent();
  WakeEvent(const WakeEvent&) = delete;
  WakeEvent& operator=(const WakeEvent&) = delete;

  // Makes fd() readable until the next Take.
  void Set();
  // Whether Set was called since the last Take; it may say so twice. Cheap when it was not.
  bool Take();
  int fd() const { return fd_; }

 private:
  const int fd_;
  std::atomic<bool> set_{false};  // saves the system call of a repeated Set
};

}  // namespace psgd
