// Addresses as people write them: "tcp://host:port", "ipc:///path".
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

struct Address {
  enum class Scheme { kTcp, kIpc };
  Scheme scheme = Scheme::kTcp;
  std::string host;  // tcp: a name, an IPv4 address or an IPv6 address without brackets
  int port = 0;      // tcp; 0: any free one
  std::string path;  // ipc

  bool ipv6() const { return host.find(':') != std::string::npos; }
  std::string HostPort() const;  // "127.0.0.1:80", "[::1]:80"
  std::string ToString() const;
};

// INVALID_ARGUMENT, with the form expected, when it is not an address.
absl::StatusOr<Address> ParseAddress(absl::string_view text);

// Why listening at `address` failed with `error` (an errno), and what to do about it.
absl::Status ListenError(const Address& address, int error);

// Binds a TCP address for a moment: 0, or the errno that listening there would meet. For libraries
// that do not tell.
int TryToListen(const Address& address);

// Whether another socket listens at the path of an ipc address; a stale file left by a dead process
// does not count. An error when the path holds something that is not a socket.
absl::StatusOr<bool> IpcInUse(const Address& address);

}  // namespace psgd
