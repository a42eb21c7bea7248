#include "net/zmq/socket_events.h"

#include <cstddef>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace psgd {

SocketEvents::SocketEvents(zmq::context_t& context, zmq::socket_t& socket, int kinds)
    : watched_(socket.handle()), events_(context, zmq::socket_type::pair) {
  static_assert(sizeof(void*) <= sizeof(uintptr_t));
  const std::string address =
      absl::StrCat("inproc://watch-", reinterpret_cast<uintptr_t>(watched_));
  // No bound: with a bound, ZeroMQ's IO thread would wait for us.
  events_.set(zmq::sockopt::rcvhwm, 0);
  events_.set(zmq::sockopt::linger, 0);
  if (zmq_socket_monitor(watched_, address.c_str(), kinds) != 0) throw zmq::error_t();
  events_.connect(address);
}

SocketEvents::~SocketEvents() { zmq_socket_monitor(watched_, nullptr, 0); }

std::optional<SocketEvents::Event> SocketEvents::Take() {
  zmq::message_t first;
  if (zmq_msg_recv(first.handle(), events_.handle(), ZMQ_DONTWAIT) < 0) return std::nullopt;
  Event event;
  if (first.size() == sizeof(event.what) + sizeof(event.value)) {
    std::memcpy(&event.what, first.data(), sizeof(event.what));
    std::memcpy(&event.value, first.data<std::byte>() + sizeof(event.what), sizeof(event.value));
  }
  zmq::message_t rest;
  for (bool more = first.more(); more; more = rest.more()) {
    if (zmq_msg_recv(rest.handle(), events_.handle(), 0) < 0) break;
  }
  return event;
}

}  // namespace psgd
