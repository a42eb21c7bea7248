// What the endpoints of all transports share: counters, the wire format, and the errors of Send.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "net/transport.h"
#include "net/wire_format.h"

namespace psgd {

// Belongs to the endpoint's thread.
class EndpointBase : public Endpoint {
 public:
  explicit EndpointBase(const TransportOptions& options, Integrity integrity = Integrity::kChecksum)
      : options_(options), integrity_(integrity) {}

  const std::string& address() const final { return address_; }
  EndpointStats stats() const override { return stats_; }

 protected:
  // The outcome of looking for a message.
  struct Attempt {
    bool refused = false;              // the input was malformed
    std::optional<Received> received;  // otherwise a message, or nothing
  };

  absl::StatusOr<EncodedMessage> Encode(const Message& message) const {
    return EncodeMessage(message, options_.max_message_bytes, integrity_);
  }
  // Decodes a message and counts it; counts malformed frames with the reason. `pass`: what the peer
  // of a secured listener proved to have. It must belong to the worker in the header, so a message
  // of a peer that is no longer a member is refused, too.
  std::optional<Message> Decode(std::span<const Bytes> frames, absl::string_view pass);
  void CountSent(size_t bytes) {
    ++stats_.messages_sent;
    stats_.bytes_sent += bytes;
  }
  void CountReceived(size_t bytes) {
    ++stats_.messages_received;
    stats_.bytes_received += bytes;
  }
  void CountMalformed(absl::string_view why) {
    ++stats_.malformed;
    stats_.last_malformed = std::string(why);
  }

  static absl::Status Gone(PeerId peer);
  static absl::Status Full(PeerId peer);
  static absl::Status NotConnected(PeerId peer);

  const TransportOptions options_;
  const Integrity integrity_;
  std::string address_;  // of a listening endpoint

 private:
  EndpointStats stats_;
};

}  // namespace psgd
