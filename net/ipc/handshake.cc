#include "net/ipc/handshake.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "common/open_files.h"
#include "net/wire_format.h"

namespace psgd {
namespace {

constexpr uint64_t kHandshakeMagic = 0x4350492d44475350;  // "PSGD-IPC", little-endian
constexpr size_t kMostPass = 104;
constexpr size_t kMostDescriptors = 3;

// Both directions; a welcome has no arena and no pass.
struct Greeting {
  uint64_t magic = kHandshakeMagic;
  uint32_t version = kProtocolVersion;
  uint32_t pass_bytes = 0;
  uint64_t arena_bytes = 0;
  uint64_t number = 0;  // of the link, for Bell::Ring
  char pass[kMostPass] = {};
};

// The name of a Unix socket in the abstract namespace, which begins with a zero.
struct SocketName {
  explicit SocketName(const Address& address)
      : size(static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + address.name.size())) {
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path + 1, address.name.data(), address.name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }

  sockaddr_un name{};
  const socklen_t size;
};

absl::Status SendGreeting(int socket, Greeting greeting, std::span<const int> descriptors) {
  iovec bytes = {&greeting, sizeof(greeting)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostDescriptors)] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  if (::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(greeting)) {
    return UnavailableError("no greeting could be sent: ", std::strerror(errno));
  }
  return absl::OkStatus();
}

struct Greeted {
  Greeting greeting;
  std::vector<FileDescriptor> descriptors;
};

absl::StatusOr<Greeted> ReceiveGreeting(int socket, size_t descriptors) {
  Greeted greeted;
  iovec bytes = {&greeted.greeting, sizeof(Greeting)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostDescriptors)] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return absl::NotFoundError("nothing came");
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      greeted.descriptors.emplace_back(fd);
    }
  }
  if (got <= 0) return absl::UnavailableError("the other side is gone");
  const Greeting& greeting = greeted.greeting;
  // Before its size, which differs between versions.
  const bool has_version = static_cast<size_t>(got) >= offsetof(Greeting, pass_bytes);
  if (has_version && greeting.magic == kHandshakeMagic && greeting.version != kProtocolVersion) {
    return InvalidArgumentError("the peer speaks protocol version ", greeting.version,
                                ", this side version ", kProtocolVersion,
                                ": run the same release on both");
  }
  const bool is_greeting = got == sizeof(Greeting) && greeting.magic == kHandshakeMagic &&
                           greeting.pass_bytes <= kMostPass && greeting.number < Bell::kMostLinks;
  const size_t passed = greeted.descriptors.size();
  if (is_greeting && passed < descriptors && (message.msg_flags & MSG_CTRUNC) != 0) {
    return ResourceExhaustedError("no file can be opened for a peer: ", OpenFilesText());
  }
  if (!is_greeting || passed != descriptors) {
    return absl::InvalidArgumentError("not a psgd process; does something else connect here?");
  }
  return greeted;
}

}  // namespace

absl::StatusOr<FileDescriptor> ListenUnix(const Address& address) {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const SocketName name(address);
  if (!socket.open() || ::bind(socket.get(), name.get(), name.size) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return ListenError(address, errno);
  }
  return socket;
}

absl::StatusOr<FileDescriptor> ConnectUnix(const Address& address) {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const SocketName name(address);
  if (!socket.open() || ::connect(socket.get(), name.get(), name.size) != 0) {
    return UnavailableError("cannot connect to ", address.ToString(), ": ", std::strerror(errno));
  }
  return socket;
}

absl::Status SendHello(int socket, uint64_t arena_bytes, const std::string& pass, int link,
                       size_t number, const Bell& bell) {
  Greeting greeting;
  greeting.number = number;
  greeting.arena_bytes = arena_bytes;
  greeting.pass_bytes = static_cast<uint32_t>(std::min(pass.size(), kMostPass));
  std::memcpy(greeting.pass, pass.data(), greeting.pass_bytes);
  return SendGreeting(socket, greeting, std::array{link, bell.memory_fd(), bell.fd()});
}

absl::Status SendWelcome(int socket, size_t number, const Bell& bell) {
  Greeting greeting;
  greeting.number = number;
  return SendGreeting(socket, greeting, std::array{bell.memory_fd(), bell.fd()});
}

absl::StatusOr<IpcHello> ReceiveHello(int socket) {
  PSGD_ASSIGN_OR_RETURN(Greeted greeted, ReceiveGreeting(socket, 3));
  IpcHello hello;
  hello.arena_bytes = greeted.greeting.arena_bytes;
  hello.number = greeted.greeting.number;
  hello.pass.assign(greeted.greeting.pass, greeted.greeting.pass_bytes);
  hello.link = std::move(greeted.descriptors[0]);
  hello.bell_memory = std::move(greeted.descriptors[1]);
  hello.bell_event = std::move(greeted.descriptors[2]);
  return hello;
}

absl::StatusOr<IpcWelcome> ReceiveWelcome(int socket) {
  PSGD_ASSIGN_OR_RETURN(Greeted greeted, ReceiveGreeting(socket, 2));
  PSGD_ASSIGN_OR_RETURN(
      Bell bell, Bell::Map(std::move(greeted.descriptors[0]), std::move(greeted.descriptors[1])));
  return IpcWelcome{greeted.greeting.number, std::move(bell)};
}

bool IsOwnUser(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == ::geteuid();
}

}  // namespace psgd
