// Bounds what the peers of a listening ZeroMQ socket may take: ZeroMQ itself keeps the parts of an
// unfinished message without end, and accepts connections without end.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <map>
#include <string>
#include <zmq.hpp>

#include "common/clock.h"

namespace psgd {

struct ConnectionLimits {
  size_t connections = 0;
  // Received on a connection since it last gave a message: while all whole messages are taken this
  // is an unfinished one; otherwise whole ones may wait in ZeroMQ's queue.
  size_t unfinished_bytes = 0;
  size_t waiting_bytes = 0;
};

// Counts with the kernel's eyes: bytes that came in on a TCP connection, whatever they are. Unix
// sockets have no such count; they lie in a folder of the run's own user. Belongs to the socket's
// thread.
class ConnectionWatch {
 public:
  // Before the socket listens.
  ConnectionWatch(zmq::context_t& context, zmq::socket_t& socket, const ConnectionLimits& limits);
  // Before the socket is closed.
  ~ConnectionWatch();

  // Readable when there is something to look at.
  zmq::socket_t& events() { return events_; }
  // A message was taken that came in on this connection.
  void Delivered(int fd);
  // `empty`: no whole message waits in the socket.
  void Look(bool empty, Time now);

  uint64_t failed_handshakes() const { return failed_handshakes_; }
  uint64_t ended() const { return ended_; }          // connections that broke a limit
  const std::string& last() const { return last_; }  // of either, for people

 private:
  struct Connection {
    sockaddr_storage peer{};
    bool delivered = false;  // since the last look
    uint64_t counted = 0;    // bytes, when it had last delivered
  };
  void TakeEvents();
  void Accepted(int fd);
  // Only if it still is the connection that was accepted: descriptors are used again.
  void End(int fd, const Connection& connection, std::string why);

  const ConnectionLimits limits_;
  zmq::socket_t& socket_;
  zmq::socket_t events_;
  std::map<int, Connection> connections_;  // by descriptor
  Time next_look_{};
  uint64_t failed_handshakes_ = 0;
  uint64_t ended_ = 0;
  std::string last_;
};

}  // namespace psgd
