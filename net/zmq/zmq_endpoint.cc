#include "net/zmq/zmq_endpoint.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/zmq/zmq_socket.h"

namespace psgd {

ZmqEndpoint::ZmqEndpoint(const TransportOptions& options)
    : options_(options), context_(MakeZmqContext()) {
  poll_items_.push_back({.socket = nullptr, .fd = wake_.fd(), .events = ZMQ_POLLIN, .revents = 0});
}

void ZmqEndpoint::PollOn(zmq::socket_t& socket) {
  poll_items_.push_back({.socket = socket.handle(), .fd = 0, .events = ZMQ_POLLIN, .revents = 0});
}

std::optional<Received> ZmqEndpoint::Receive(Duration timeout) {
  // A bounded wait keeps the deadline within the clock's range.
  const Time deadline = SteadyNow() + std::min<Duration>(timeout, std::chrono::hours(24));
  while (true) {
    if (wake_.Take()) return std::nullopt;
    Attempt attempt = TryReceive();
    if (attempt.refused || attempt.received) return std::move(attempt.received);
    Idle();
    const Duration left = deadline - SteadyNow();
    if (left <= Duration::zero()) return std::nullopt;
    // Rounded up: a poll of 0 ms would spin until the deadline.
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    // An interrupted poll counts as one that ended early.
    zmq_poll(poll_items_.data(), static_cast<int>(poll_items_.size()), wait);
  }
}

std::optional<Message> ZmqEndpoint::Decode(std::span<const Bytes> frames) {
  absl::StatusOr<Message> message = DecodeMessage(frames, options_.max_message_bytes);
  if (!message.ok()) {
    CountMalformed(std::string(message.status().message()));
    return std::nullopt;
  }
  ++stats_.messages_received;
  for (const Bytes& frame : frames) stats_.bytes_received += frame.size();
  return *std::move(message);
}

absl::StatusOr<EncodedMessage> ZmqEndpoint::Encode(const Message& message) const {
  return EncodeMessage(message, options_.max_message_bytes);
}

void ZmqEndpoint::CountSent(const EncodedMessage& message) {
  ++stats_.messages_sent;
  stats_.bytes_sent += message.size;
}

void ZmqEndpoint::CountMalformed(std::string why) {
  ++stats_.malformed;
  stats_.last_malformed = std::move(why);
}

void ZmqEndpoint::CountImpostor(std::string why) {
  ++stats_.impostors;
  stats_.last_turned_away = std::move(why);
}

absl::Status ZmqUnavailable(absl::string_view address, const std::exception& error) {
  return absl::UnavailableError(absl::StrCat("no ZeroMQ socket for ", address, ": ", error.what(),
                                             "; are too many files open (ulimit -n)?"));
}

}  // namespace psgd
