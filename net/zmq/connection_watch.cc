#include "net/zmq/connection_watch.h"

#include <linux/tcp.h>
#include <netinet/in.h>

#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

constexpr Duration kLookEvery = std::chrono::milliseconds(25);
constexpr int kEvents = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED |
                        ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                        ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

sockaddr_storage PeerOf(int fd) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return {};
  return peer;
}

// Returns nothing if `fd` is not a TCP connection, or is closed.
std::optional<uint64_t> BytesReceived(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  if (size < offsetof(tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received) {
    return std::nullopt;
  }
  return info.tcpi_bytes_received;
}

}  // namespace

ConnectionWatch::ConnectionWatch(zmq::context_t& context, zmq::socket_t& socket,
                                 const ConnectionLimits& limits)
    : limits_(limits), events_(context, socket, kEvents) {}

void ConnectionWatch::Delivered(int fd) {
  if (const auto it = connections_.find(fd); it != connections_.end()) it->second.delivered = true;
}

void ConnectionWatch::TakeEvents() {
  while (const auto event = events_.Take()) {
    const auto [what, value] = *event;
    if (what == ZMQ_EVENT_ACCEPTED) {
      Accepted(value);
    } else if (what == ZMQ_EVENT_DISCONNECTED) {
      connections_.erase(value);
    } else if (what != 0) {
      ++failed_handshakes_;
      last_ = what == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH
                  ? "its key is not that of a member of the run"
                  : "its handshake failed: no CURVE, another key of the server's, or not ZeroMQ";
    }
  }
}

void ConnectionWatch::Accepted(int fd) {
  Connection connection;
  connection.peer = PeerOf(fd);
  // The peer may have sent whole messages before this event was read.
  connection.delivered = true;
  connections_[fd] = connection;
  if (connections_.size() <= limits_.connections) return;
  End(fd, connection, absl::StrCat("more than ", limits_.connections, " connections"));
  connections_.erase(fd);
}

void ConnectionWatch::End(int fd, const Connection& connection, std::string why) {
  const sockaddr_storage peer = PeerOf(fd);
  if (std::memcmp(&peer, &connection.peer, sizeof peer) != 0) return;
  // AF_UNSPEC dissolves the connection at both ends at once, and ZeroMQ then frees its data. ZeroMQ
  // would notice a shutdown only after the peer stops sending.
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  (void)::connect(fd, &nobody, sizeof nobody);
  ++ended_;
  last_ = std::move(why);
}

void ConnectionWatch::Look(bool empty, Time now) {
  TakeEvents();
  if (now < next_look_) return;
  next_look_ = now + kLookEvery;
  const size_t limit = empty ? limits_.unfinished_bytes : limits_.waiting_bytes;
  for (auto it = connections_.begin(); it != connections_.end();) {
    auto& [fd, connection] = *it;
    const std::optional<uint64_t> bytes = BytesReceived(fd);
    const bool new_count =
        std::exchange(connection.delivered, false) || (bytes && *bytes < connection.counted);
    if (bytes && new_count) connection.counted = *bytes;
    if (bytes && *bytes - connection.counted > limit) {
      End(fd, connection, absl::StrCat("more than ", limit, " bytes and not yet a message"));
      it = connections_.erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace psgd
