#include "net/wake_event.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace psgd {

WakeEvent::WakeEvent() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}
WakeEvent::~WakeEvent() { ::close(fd_); }

void WakeEvent::Set() {
  if (set_.exchange(true, std::memory_order_acq_rel)) return;
  const uint64_t one = 1;
  // The write cannot fail: the counter is small.
  (void)!::write(fd_, &one, sizeof(one));
}

bool WakeEvent::Take() {
  if (!set_.load(std::memory_order_relaxed)) return false;
  uint64_t count;
  // Set has not written yet: the flag stays, so that a later Take reads what it writes. Else fd()
  // would stay readable until another Set, and each poll would end at once.
  if (::read(fd_, &count, sizeof(count)) != sizeof(count)) return true;
  // This comes last: a thread that still finds the flag set made its change before this point, and
  // the caller sees that change.
  set_.exchange(false, std::memory_order_acq_rel);
  return true;
}

}  // namespace psgd
