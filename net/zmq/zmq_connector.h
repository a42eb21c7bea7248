// The connecting side: one DEALER socket for each address. ZeroMQ reconnects by itself and keeps
// queued messages, so a Send to a lost peer succeeds until the queue is full.
#pragma once

#include <string>
#include <vector>
#include <zmq.hpp>

#include "common/bytes.h"
#include "net/zmq/zmq_endpoint.h"

namespace psgd {

class ZmqConnector : public ZmqEndpoint {
 public:
  using ZmqEndpoint::ZmqEndpoint;

  // Adds addresses, whose indices follow those before. INVALID_ARGUMENT: one is wrong.
  absl::Status Connect(const std::vector<std::string>& addresses);
  absl::Status Send(PeerId to, const Message& message) override;

 protected:
  Attempt TryReceive() override;

 private:
  std::vector<zmq::socket_t> sockets_;
  size_t next_ = 0;
  std::vector<Bytes> frames_;  // of the message being received
};

}  // namespace psgd
