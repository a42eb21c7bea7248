// How two processes meet over a Unix socket: the connecting side sends the memory of the link and
// its bell, the listening side its bell, and both the number of the link in their bell. Later the
// socket only tells that the other side is gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/file_descriptor.h"
#include "common/status.h"
#include "net/address.h"
#include "net/ipc/bell.h"

namespace psgd {

struct IpcHello {
  uint64_t arena_bytes = 0;
  std::string pass;   // of a secured run: the worker's public key
  size_t number = 0;  // of the link, in the bell of who says hello
  FileDescriptor link;
  FileDescriptor bell_memory, bell_event;
};

struct IpcWelcome {
  size_t number = 0;  // of the link, in the bell
  Bell bell;
};

// Never wait. UNAVAILABLE: the other side is gone.
absl::StatusOr<FileDescriptor> ListenUnix(const Address& address);
absl::StatusOr<FileDescriptor> ConnectUnix(const Address& address);
// REQUIRES: a number below Bell::kMostLinks.
absl::Status SendHello(int socket, uint64_t arena_bytes, const std::string& pass, int link,
                       size_t number, const Bell& bell);
absl::Status SendWelcome(int socket, size_t number, const Bell& bell);
// NOT_FOUND: nothing came yet. Any other error: the other side is gone, or does not speak as it
// must.
absl::StatusOr<IpcHello> ReceiveHello(int socket);
absl::StatusOr<IpcWelcome> ReceiveWelcome(int socket);

// Whether the process at the other end is of this user.
bool IsOwnUser(int socket);

}  // namespace psgd
