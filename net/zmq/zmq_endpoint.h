// The shared part of both ZeroMQ endpoints: waiting, counting, and the wire format.
#pragma once

#include <exception>
#include <span>
#include <vector>
#include <zmq.hpp>

#include "net/transport.h"
#include "net/wire_format.h"
#include "net/zmq/wake_event.h"

namespace psgd {

class ZmqEndpoint : public Endpoint {
 public:
  explicit ZmqEndpoint(const TransportOptions& options);

  std::optional<Received> Receive(Duration timeout) final;
  void Wake() final { wake_.Set(); }
  EndpointStats stats() const override { return stats_; }

 protected:
  struct Attempt {
    bool refused = false;              // the input was malformed
    std::optional<Received> received;  // otherwise a message, or nothing
  };
  // Takes one message from a socket, without waiting.
  virtual Attempt TryReceive() = 0;

  // Called when no message is there, before Receive waits.
  virtual void Idle() {}

  // Decodes a message and counts it; counts malformed frames with the reason.
  std::optional<Message> Decode(std::span<const Bytes> frames);
  absl::StatusOr<EncodedMessage> Encode(const Message& message) const;
  void CountSent(const EncodedMessage& message);
  void CountMalformed(std::string why);
  void CountImpostor(std::string why);

  // Makes Receive wait for this socket, too.
  void PollOn(zmq::socket_t& socket);

  const TransportOptions options_;
  zmq::context_t context_;  // outlives the sockets of derived classes; its end waits for linger

 private:
  WakeEvent wake_;
  std::vector<zmq_pollitem_t> poll_items_;  // the wake event, then the sockets
  EndpointStats stats_;
};

// The status for a ZeroMQ exception: no context, socket or eventfd could be made.
absl::Status ZmqUnavailable(absl::string_view address, const std::exception& error);

absl::StatusOr<std::unique_ptr<Endpoint>> ListenZmq(const std::string& address,
                                                    const TransportOptions& options);
absl::StatusOr<std::unique_ptr<Endpoint>> ConnectZmq(const std::vector<std::string>& addresses,
                                                     const TransportOptions& options);

}  // namespace psgd
