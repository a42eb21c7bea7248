#include "net/epoll.h"

#include <sys/epoll.h>

#include <cerrno>
#include <cstring>

#include "common/open_files.h"

namespace psgd {

absl::StatusOr<FileDescriptor> MakeEpoll() {
  FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.open()) {
    return UnavailableError("no epoll: ", std::strerror(errno), "; ", OpenFilesText());
  }
  return epoll;
}

void Watch(const FileDescriptor& epoll, int fd, uint64_t key, uint32_t events) {
  epoll_event event{.events = events, .data = {.u64 = key}};
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0 || errno != EEXIST) return;
  (void)::epoll_ctl(epoll.get(), EPOLL_CTL_MOD, fd, &event);
}

}  // namespace psgd
