// How two endpoints meet: over a TCP connection each tells the other where its UCX worker is
// reached. Later the connection only tells that the other side is gone.
//
// UCX has connections of its own for this, but a stranger's bytes on their port end the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "common/file_descriptor.h"
#include "common/status.h"
#include "net/address.h"
#include "net/resolve.h"

namespace psgd {

struct UcxGreeting {
  uint64_t number = 0;  // the receiver of the greeting writes it into each message it sends
  std::string worker;   // the address that UCX gives a worker
};

// All sockets are non-blocking.
absl::StatusOr<FileDescriptor> ListenForGreetings(const Address& address, int* port);
// Does not wait for the other side.
absl::StatusOr<FileDescriptor> ConnectForGreeting(const SocketAddress& address);
// REQUIRES: the socket is writable, and nothing was written before.
absl::Status SendGreeting(int socket, const UcxGreeting& greeting);

// Reads one greeting, in as many parts as it comes.
class GreetingReader {
 public:
  // Nothing: it is not whole yet. Any error: the other side is gone, or does not speak as it must.
  absl::StatusOr<std::optional<UcxGreeting>> Read(int socket);

 private:
  std::string bytes_;
};

}  // namespace psgd
