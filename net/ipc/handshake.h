// How two processes meet over a Unix socket: the connecting side sends the memory of the link and
// its bell, the listening side its bell. Later the socket only tells that the other side is gone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/file_descriptor.h"
#include "common/status.h"
#include "net/address.h"
#include "net/ipc/bell.h"

namespace psgd {

struct IpcHello {
  uint64_t arena_bytes = 0;
  std::string pass;  // of a secured run: the worker's public key
  FileDescriptor link;
  FileDescriptor bell_memory, bell_event;
};

// Never wait. UNAVAILABLE: the other side is gone.
absl::StatusOr<FileDescriptor> ListenUnix(const Address& address);
absl::StatusOr<FileDescriptor> ConnectUnix(const Address& address);
absl::Status SendHello(int socket, uint64_t arena_bytes, const std::string& pass, int link,
                       const Bell& bell);
absl::Status SendWelcome(int socket, const Bell& bell);
// NOT_FOUND: nothing came yet. Any other error: the other side is gone, or does not speak as it
// must.
absl::StatusOr<IpcHello> ReceiveHello(int socket);
absl::StatusOr<Bell> ReceiveWelcome(int socket);

// Whether the process at the other end is of this user.
bool IsOwnUser(int socket);

}  // namespace psgd
