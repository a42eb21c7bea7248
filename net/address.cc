#include "net/address.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/file_descriptor.h"
#include "net/resolve.h"

namespace psgd {
namespace {

constexpr size_t kLongestName = sizeof(sockaddr_un::sun_path) - 1;

absl::Status Bad(absl::string_view text, absl::string_view why) {
  return InvalidArgumentError("\"", text, "\" is not an address: ", why,
                              "; write tcp://HOST:PORT or ipc://NAME");
}

// In digits, perhaps with a zone, as "fe80::1%eth0".
bool IsIpv6(const std::string& host) {
  in6_addr address;
  return ::inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &address) == 1;
}

}  // namespace

std::string HostPort(absl::string_view host, int port) {
  return Address{.host = std::string(host), .port = port, .name = {}}.HostPort();
}

std::string WithoutBrackets(absl::string_view host) {
  absl::string_view inside = host;
  const bool brackets = absl::ConsumePrefix(&inside, "[") && absl::ConsumeSuffix(&inside, "]");
  return std::string(brackets ? inside : host);
}

std::string Address::HostPort() const {
  return ipv6() ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

std::string Address::ToString() const {
  return scheme == Scheme::kIpc ? absl::StrCat("ipc://", name) : absl::StrCat("tcp://", HostPort());
}

absl::StatusOr<Address> ParseAddress(absl::string_view text) {
  absl::string_view rest = text;
  Address address;
  if (absl::ConsumePrefix(&rest, "ipc://")) {
    const bool readable = !rest.empty() && std::ranges::all_of(rest, [](char c) {
      return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
    });
    if (!readable) return Bad(text, "a name has letters, digits, '-', '_' and '.'");
    if (rest.size() > kLongestName) {
      return Bad(text, absl::StrCat("a name has at most ", kLongestName, " characters, this one ",
                                    rest.size()));
    }
    address.scheme = Address::Scheme::kIpc;
    address.name = std::string(rest);
    return address;
  }
  if (!absl::ConsumePrefix(&rest, "tcp://")) return Bad(text, "unknown scheme");
  const size_t colon = rest.rfind(':');
  if (colon == absl::string_view::npos) return Bad(text, "no port");
  const absl::string_view host = rest.substr(0, colon);
  address.host = WithoutBrackets(host);
  if (address.host.empty()) return Bad(text, "no host");
  const bool brackets = address.host.size() < host.size();
  if ((brackets || address.ipv6()) && !(brackets && IsIpv6(address.host))) {
    return Bad(text, "an IPv6 address, and only one, goes in brackets");
  }
  if (!absl::SimpleAtoi(rest.substr(colon + 1), &address.port) || address.port < 0 ||
      address.port > 65535) {
    return Bad(text, "the port is not a number from 0 to 65535");
  }
  return address;
}

absl::StatusOr<Address> ParseTcpAddress(absl::string_view text) {
  PSGD_ASSIGN_OR_RETURN(Address address, ParseAddress(text));
  if (address.scheme != Address::Scheme::kTcp) return Bad(text, "this transport goes over TCP");
  return address;
}

absl::StatusOr<Address> ParseIpcAddress(absl::string_view text) {
  PSGD_ASSIGN_OR_RETURN(Address address, ParseAddress(text));
  if (address.scheme != Address::Scheme::kIpc) {
    return InvalidArgumentError("\"", text, "\": shared memory needs ipc://NAME");
  }
  return address;
}

absl::Status ListenError(const Address& address, int error) {
  const std::string what = absl::StrCat("cannot listen at ", address.ToString(), ": ");
  switch (error) {
    case EADDRINUSE:
      return AlreadyExistsError(
          what, "another process uses it; stop that one or choose another ",
          address.scheme == Address::Scheme::kTcp ? "port (0: any free one)" : "path");
    case EADDRNOTAVAIL:
    case ENODEV:
      return InvalidArgumentError(what,
                                  "the host is not an address of this machine; use 127.0.0.1, "
                                  "0.0.0.0 or an address that `ip address` shows");
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(
          absl::StrCat(what, address.scheme == Address::Scheme::kTcp
                                 ? "not permitted; ports below 1024 need privileges"
                                 : "not permitted; is the folder writable?"));
    case ENOENT:
      return NotFoundError(what, "the folder of the socket does not exist");
    default:
      return UnavailableError(what, std::strerror(error));
  }
}

int TryToListen(const Address& address) {
  const auto found = Resolve(address.host, address.port);
  if (!found.ok()) return ENODEV;
  const SocketAddress& at = found->front();
  const FileDescriptor fd(::socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (!fd.open() || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      ::bind(fd.get(), at.get(), at.size) != 0 || ::listen(fd.get(), 1) != 0) {
    return errno;
  }
  return 0;
}

absl::StatusOr<std::string> OwnAddressTowards(const std::string& host_port) {
  PSGD_ASSIGN_OR_RETURN(const Address address, ParseTcpAddress(absl::StrCat("tcp://", host_port)));
  PSGD_ASSIGN_OR_RETURN(const auto found, Resolve(address.host, address.port));
  int error = ENOENT;
  for (const SocketAddress& at : found) {
    // Nothing is sent: connecting a datagram socket only chooses the way.
    const FileDescriptor fd(::socket(at.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const bool connected = fd.open() && ::connect(fd.get(), at.get(), at.size) == 0;
    error = errno;
    SocketAddress own;
    if (connected && ::getsockname(fd.get(), own.get(), &own.size) == 0) {
      return own.host();
    }
  }
  return UnavailableError("no way to ", host_port, ": ", std::strerror(error));
}

}  // namespace psgd
