#include "net/ucx/greeting.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "common/bytes.h"
#include "net/wire_format.h"

namespace psgd {
namespace {

constexpr uint64_t kGreetingMagic = 0x5843552d44475350;  // "PSGD-UCX", little-endian
constexpr uint32_t kMostAddress = 64u << 10;

// Before the worker's address.
struct Front {
  uint64_t magic = kGreetingMagic;
  uint32_t version = kProtocolVersion;
  uint32_t address_bytes = 0;
  uint64_t number = 0;
  uint64_t checksum = 0;  // of the worker's address, in which UCX trusts
};

absl::Status Check(const Front& front) {
  const bool is_greeting = front.magic == kGreetingMagic;
  // Before the length, in whose place other versions may have something else.
  if (is_greeting && front.version != kProtocolVersion) {
    return InvalidArgumentError("the peer speaks protocol version ", front.version,
                                ", this side version ", kProtocolVersion,
                                ": run the same release on both");
  }
  if (!is_greeting || front.address_bytes == 0 || front.address_bytes > kMostAddress) {
    return absl::InvalidArgumentError("not a psgd process; does something else connect here?");
  }
  return absl::OkStatus();
}

FileDescriptor MakeSocket(int family) {
  return FileDescriptor(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

void Set(int socket, int level, int option, int value) {
  (void)::setsockopt(socket, level, option, &value, sizeof(value));
}

}  // namespace

absl::StatusOr<FileDescriptor> ListenForGreetings(const Address& address, int* port) {
  const auto found = Resolve(address.host, address.port);
  if (!found.ok()) return ListenError(address, EADDRNOTAVAIL);
  const SocketAddress& at = found->front();
  FileDescriptor socket = MakeSocket(at.family());
  Set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (!socket.open() || ::bind(socket.get(), at.get(), at.size) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return ListenError(address, errno);
  }
  SocketAddress own;
  (void)::getsockname(socket.get(), own.get(), &own.size);
  *port = own.port();
  return socket;
}

absl::StatusOr<FileDescriptor> ConnectForGreeting(const SocketAddress& address) {
  FileDescriptor socket = MakeSocket(address.family());
  if (!socket.open() ||
      (::connect(socket.get(), address.get(), address.size) != 0 && errno != EINPROGRESS)) {
    return UnavailableError("cannot connect: ", std::strerror(errno));
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
