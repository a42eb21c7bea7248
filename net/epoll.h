// Waiting for many file descriptors at once.
#pragma once

#include <cstdint>

#include "common/file_descriptor.h"
#include "common/status.h"

namespace psgd {

absl::StatusOr<FileDescriptor> MakeEpoll();
// Reports `events` of `fd` under the key until it is closed; replaces an earlier Watch of it.
void Watch(const FileDescriptor& epoll, int fd, uint64_t key, uint32_t events);

}  // namespace psgd
