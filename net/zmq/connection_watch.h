// Limits the memory and connections that peers of a listening ZeroMQ socket may use. ZeroMQ itself
// bounds neither the parts of an unfinished message nor the number of connections.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <map>
#include <string>
#include <zmq.hpp>

#include "common/clock.h"
#include "net/zmq/socket_events.h"

namespace psgd {

struct ConnectionLimits {
  size_t connections = 0;
  // Limits of the bytes that a connection received since its last message. The first holds while
  // the socket's queue is empty, so all bytes belong to an unfinished message. The second holds
  // while whole messages may wait in the queue.
  size_t unfinished_bytes = 0;
  size_t waiting_bytes = 0;
};

// Reads the kernel's count of bytes received on a TCP connection. Unix sockets have no such count;
// their folder belongs to the run's user. Belongs to the socket's thread.
class ConnectionWatch {
 public:
  // REQUIRES: the socket does not listen yet, and outlives this.
  ConnectionWatch(zmq::context_t& context, zmq::socket_t& socket, const ConnectionLimits& limits);

  // Readable when a connection event waits.
  zmq::socket_t& events() { return events_.socket(); }
  // Called when a message of this connection was taken.
  void Delivered(int fd);
  // Checks all connections. `empty`: no whole message waits in the socket.
  void Look(bool empty, Time now);

  bool any() const { return !connections_.empty(); }
  uint64_t failed_handshakes() const { return failed_handshakes_; }
  uint64_t ended() const { return ended_; }          // connections that broke a limit
  const std::string& last() const { return last_; }  // why the last of either failed, for people

 private:
  struct Connection {
    sockaddr_storage peer{};
    bool delivered = false;  // a message since the last Look
    uint64_t counted = 0;    // bytes received up to its last message
  };
  void TakeEvents();
  void Accepted(int fd);
  // Ends the connection only if `fd` still belongs to it: the kernel reuses descriptors.
  void End(int fd, const Connection& connection, std::string why);

  const ConnectionLimits limits_;
  SocketEvents events_;
  std::map<int, Connection> connections_;  // by file descriptor
  Time next_look_{};
  uint64_t failed_handshakes_ = 0;
  uint64_t ended_ = 0;
  std::string last_;
};

}  // namespace psgd
