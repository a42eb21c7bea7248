// Addresses as people write them: "tcp://host:port", "ipc://name".
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

struct Address {
  enum class Scheme { kTcp, kIpc };
  Scheme scheme = Scheme::kTcp;
  std::string host;  // tcp: a name, an IPv4 address or an IPv6 address without brackets
  int port = 0;      // tcp; 0: any free port
  std::string name;  // ipc: of a Unix socket that is no file, and is gone with its process

  bool ipv6() const { return host.find(':') != std::string::npos; }
  std::string HostPort() const;  // "127.0.0.1:80", "[::1]:80"
  std::string ToString() const;
};

std::string HostPort(absl::string_view host, int port);
// "::1" of "[::1]"; any other host as it is.
std::string WithoutBrackets(absl::string_view host);

// Returns INVALID_ARGUMENT, with the expected form, when `text` is not an address.
absl::StatusOr<Address> ParseAddress(absl::string_view text);

// As ParseAddress, for the transports over TCP.
absl::StatusOr<Address> ParseTcpAddress(absl::string_view text);
// As ParseAddress, for shared memory.
absl::StatusOr<Address> ParseIpcAddress(absl::string_view text);

// Says why listening at `address` failed with `error` (an errno), and what to do about it.
absl::Status ListenError(const Address& address, int error);

// Binds a TCP address for a moment. Returns 0, or the errno that listening would give. For
// libraries that hide the errno.
int TryToListen(const Address& address);

// The address from which this machine reaches the server at "host:port".
absl::StatusOr<std::string> OwnAddressTowards(const std::string& host_port);

}  // namespace psgd
