#include "net/zmq/zmq_endpoint.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <utility>

#include "common/open_files.h"
#include "net/zmq/zmq_socket.h"

namespace psgd {

ZmqEndpoint::ZmqEndpoint(const TransportOptions& options, int io_threads)
    : EndpointBase(options), context_(io_threads) {
  poll_items_.push_back({.socket = nullptr, .fd = wake_.fd(), .events = ZMQ_POLLIN, .revents = 0});
}

void ZmqEndpoint::PollOn(zmq::socket_t& socket) {
  poll_items_.insert(poll_items_.end() - static_cast<ptrdiff_t>(owners_items_),
                     {.socket = socket.handle(), .fd = 0, .events = ZMQ_POLLIN, .revents = 0});
}

void ZmqEndpoint::AlsoEndOn(int fd) {
  poll_items_.push_back({.socket = nullptr, .fd = fd, .events = ZMQ_POLLIN, .revents = 0});
  ++owners_items_;
}

std::optional<Received> ZmqEndpoint::Receive(Duration timeout) {
  // A bounded wait keeps the deadline within the clock's range.
  const Time deadline = SteadyNow() + std::min<Duration>(timeout, std::chrono::hours(24));
  while (true) {
    if (wake_.Take()) {
      woken_ = true;
      return std::nullopt;
    }
    Attempt attempt = TryReceive();
    if (attempt.refused || attempt.received) return std::move(attempt.received);
    const Duration most = Idle();
    const Duration left = deadline - SteadyNow();
    if (left <= Duration::zero()) return std::nullopt;
    // Rounded up: a poll of 0 ms would spin until the deadline.
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(std::min(left, most)).count();
    // An interrupted poll counts as one that ended early.
    zmq_poll(poll_items_.data(), static_cast<int>(poll_items_.size()), wait);
    const auto owners = std::span(poll_items_).last(owners_items_);
    const bool ends = std::ranges::any_of(owners, [](const auto& item) { return item.revents; });
    if (ends) return TryReceive().received;
  }
}

absl::Status ZmqUnavailable(absl::string_view address, const std::exception& error) {
  return UnavailableError("no ZeroMQ socket for ", address, ": ", error.what(), "; ",
                          OpenFilesText());
}

}  // namespace psgd
