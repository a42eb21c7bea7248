// The shared part of both ZeroMQ endpoints: waiting, counting, and the wire format.
#pragma once

#include <exception>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "net/endpoint_base.h"
#include "net/wake_event.h"

namespace psgd {

class ZmqEndpoint : public EndpointBase {
 public:
  explicit ZmqEndpoint(const TransportOptions& options, int io_threads = 1);

  std::optional<Received> Receive(Duration timeout) final;
  void Wake() final { wake_.Set(); }

  // For an owner that waits for more than this endpoint: Receive ends when `fd` is readable, too.
  // Call it before the first Receive.
  void AlsoEndOn(int fd);
  // Whether the last Receive ended because of Wake.
  bool TakeWoken() { return std::exchange(woken_, false); }

 protected:
  // Takes one message from a socket, without waiting.
  virtual Attempt TryReceive() = 0;

  // Called when no message is there, before Receive waits. Returns how long that may last at most.
  virtual Duration Idle() { return Duration::max(); }

  // Makes Receive wait for this socket, too.
  void PollOn(zmq::socket_t& socket);

  // Each endpoint has its own context. So shards do not share IO threads, and the end of an
  // endpoint waits only for its own messages.
  zmq::context_t context_;  // outlives the sockets of derived classes; its end waits for linger

 private:
  WakeEvent wake_;
  bool woken_ = false;
  std::vector<zmq_pollitem_t> poll_items_;  // the wake event, the sockets, then the owner's
  size_t owners_items_ = 0;
};

// The status for a ZeroMQ exception: no context, socket or eventfd could be made.
absl::Status ZmqUnavailable(absl::string_view address, const std::exception& error);

StatusOrEndpoint ListenZmq(const std::string& address, const TransportOptions& options);
StatusOrEndpoint ConnectZmq(const std::vector<std::string>& addresses,
                            const TransportOptions& options);

}  // namespace psgd
