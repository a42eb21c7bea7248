#include "net/ucx/greeting.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "common/bytes.h"
#include "net/wire_format.h"

namespace psgd {
namespace {

constexpr uint64_t kMagic = 0x5843552d44475350;  // "PSGD-UCX", little-endian
constexpr uint32_t kMostAddress = 64u << 10;

// Before the worker's address.
struct Front {
  uint64_t magic = kMagic;
  uint32_t version = kProtocolVersion;
  uint32_t address_bytes = 0;
  uint64_t number = 0;
  uint64_t checksum = 0;  // of the worker's address, in which UCX trusts
};

absl::Status Check(const Front& front) {
  if (front.magic != kMagic || front.address_bytes == 0 || front.address_bytes > kMostAddress) {
    return absl::InvalidArgumentError("not a psgd process; does something else connect here?");
  }
  if (front.version != kProtocolVersion) {
    return InvalidArgumentError("the peer speaks protocol version ", front.version,
                                ", this side version ", kProtocolVersion,
                                ": run the same release on both");
  }
  return absl::OkStatus();
}

struct Resolved {
  sockaddr_storage address{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

// Prefers IPv4, where most servers listen.
std::optional<Resolved> Resolve(const Address& address) {
  for (const int family : {AF_INET, AF_INET6}) {
    addrinfo hints{};
    hints.ai_family = family;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;
    addrinfo* found = nullptr;
    const std::string port = std::to_string(address.port);
    if (::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found) != 0) continue;
    Resolved resolved;
    resolved.size = found->ai_addrlen;
    std::memcpy(&resolved.address, found->ai_addr, found->ai_addrlen);
    ::freeaddrinfo(found);
    return resolved;
  }
  return std::nullopt;
}

FileDescriptor MakeSocket(int family) {
  return FileDescriptor(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

void Set(int socket, int level, int option, int value) {
  (void)::setsockopt(socket, level, option, &value, sizeof(value));
}

}  // namespace

bool IsLoopback(const Address& address) {
  const std::optional<Resolved> resolved = Resolve(address);
  if (!resolved) return false;
  if (resolved->address.ss_family == AF_INET6) {
    return IN6_IS_ADDR_LOOPBACK(
        &reinterpret_cast<const sockaddr_in6*>(&resolved->address)->sin6_addr);
  }
  const in_addr ip = reinterpret_cast<const sockaddr_in*>(&resolved->address)->sin_addr;
  return ntohl(ip.s_addr) >> 24 == IN_LOOPBACKNET;
}

absl::StatusOr<FileDescriptor> ListenForGreetings(const Address& address, int* port) {
  std::optional<Resolved> resolved = Resolve(address);
  if (!resolved) return ListenError(address, EADDRNOTAVAIL);
  FileDescriptor socket = MakeSocket(resolved->address.ss_family);
  Set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (!socket.open() || ::bind(socket.get(), resolved->get(), resolved->size) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return ListenError(address, errno);
  }
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  (void)::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size);
  *port = ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&own)->sin6_port
                                          : reinterpret_cast<sockaddr_in*>(&own)->sin_port);
  return socket;
}

absl::StatusOr<FileDescriptor> ConnectForGreeting(const Address& address) {
  const std::optional<Resolved> resolved = Resolve(address);
  if (!resolved) return UnavailableError("no host ", address.host);
  FileDescriptor socket = MakeSocket(resolved->address.ss_family);
  if (!socket.open() ||
      (::connect(socket.get(), resolved->get(), resolved->size) != 0 && errno != EINPROGRESS)) {
    return UnavailableError("cannot connect to ", address.ToString(), ": ", std::strerror(errno));
  }
  return socket;
}

absl::Status SendGreeting(int socket, const UcxGreeting& greeting) {
  // The system notices a vanished host.
  Set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  Set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  Set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  Set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  const Front front{.address_bytes = static_cast<uint32_t>(greeting.worker.size()),
                    .number = greeting.number,
                    .checksum = ChecksumOf(AsBytes(greeting.worker))};
  std::string bytes(reinterpret_cast<const char*>(&front), sizeof(front));
  bytes += greeting.worker;
  const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(bytes.size())) return absl::OkStatus();
  return UnavailableError("no greeting could be sent: ", std::strerror(errno));
}

absl::StatusOr<std::optional<UcxGreeting>> GreetingReader::Read(int socket) {
  while (true) {
    size_t wanted = sizeof(Front);
    Front front;
    if (bytes_.size() >= sizeof(front)) {
      std::memcpy(&front, bytes_.data(), sizeof(front));
      PSGD_RETURN_IF_ERROR(Check(front));
      wanted += front.address_bytes;
    }
    if (bytes_.size() == wanted) {
      UcxGreeting greeting{.number = front.number, .worker = bytes_.substr(sizeof(front))};
      if (front.checksum == ChecksumOf(AsBytes(greeting.worker))) return greeting;
      return absl::InvalidArgumentError("a damaged greeting");
    }
    const size_t before = bytes_.size();
    bytes_.resize(wanted);
    const ssize_t got = ::recv(socket, bytes_.data() + before, wanted - before, 0);
    bytes_.resize(before + (got > 0 ? static_cast<size_t>(got) : 0));
    if (got == 0) return absl::UnavailableError("the other side is gone");
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
    if (got < 0) return absl::UnavailableError(std::strerror(errno));
  }
}

}  // namespace psgd
