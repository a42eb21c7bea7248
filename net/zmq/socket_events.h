// What happens to the connections of a ZeroMQ socket, from ZeroMQ's own monitor.
#pragma once

#include <cstdint>
#include <optional>
#include <zmq.hpp>

namespace psgd {

// Belongs to the socket's thread.
class SocketEvents {
 public:
  struct Event {
    uint16_t what = 0;  // ZMQ_EVENT_...
    int32_t value = 0;  // a file descriptor or an errno, as ZeroMQ documents for each kind
  };

  // `kinds`: the events to tell. REQUIRES: the socket has not yet bound or connected.
  SocketEvents(zmq::context_t& context, zmq::socket_t& socket, int kinds);
  // REQUIRES: the socket is still open.
  ~SocketEvents();

  // Readable when an event waits.
  zmq::socket_t& socket() { return events_; }
  std::optional<Event> Take();

 private:
  void* const watched_;
  zmq::socket_t events_;
};

}  // namespace psgd
