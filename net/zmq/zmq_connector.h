// The connecting side: one DEALER socket for each address. ZeroMQ reconnects by itself and keeps
// queued messages, so a Send to a lost peer succeeds until the queue is full. If a name has several
// addresses, messages are queued only after one of these was reached.
#pragma once

#include <memory>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "common/bytes.h"
#include "net/resolve.h"
#include "net/zmq/address_turns.h"
#include "net/zmq/zmq_endpoint.h"

namespace psgd {

// IO threads for a connector to `shards` shards, if `cores` cores may be busy. A connection uses
// only one thread.
int IoThreads(size_t shards, size_t cores);

class ZmqConnector : public ZmqEndpoint {
 public:
  using Resolver = absl::StatusOr<std::vector<SocketAddress>> (*)(const std::string& host,
                                                                  int port);

  // `resolve`: tests replace it, so that they have names that the system does not know.
  explicit ZmqConnector(const TransportOptions& options, Resolver resolve = &Resolve,
                        int io_threads = 1)
      : ZmqEndpoint(options, io_threads), resolve_(resolve) {}

  // Adds addresses, whose indices follow those before. INVALID_ARGUMENT: one is wrong.
  absl::Status Connect(const std::vector<std::string>& addresses);
  absl::Status Send(PeerId to, const Message& message) override;

 protected:
  Attempt TryReceive() override;
  Duration Idle() override;

 private:
  const Resolver resolve_;
  std::vector<zmq::socket_t> sockets_;
  std::vector<std::unique_ptr<AddressTurns>> turns_;  // of each; null: it has only one address
  size_t next_ = 0;
  std::vector<Bytes> frames_;  // of the message being received
};

}  // namespace psgd
