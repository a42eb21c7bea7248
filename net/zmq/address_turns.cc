#include "net/zmq/address_turns.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace psgd {
namespace {

constexpr Duration kFirstWait = std::chrono::milliseconds(50);
constexpr Duration kLongestWait = std::chrono::seconds(2);

}  // namespace

AddressTurns::AddressTurns(zmq::context_t& context, zmq::socket_t& socket, Address name,
                           std::vector<std::string> hosts)
    : name_(std::move(name)),
      socket_(socket.handle()),
      events_(context, socket, ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_CONNECT_RETRIED),
      hosts_(std::move(hosts)),
      wait_(kFirstWait) {
  if (!Connect()) throw zmq::error_t();
}

bool AddressTurns::Connect() {
  connected_ = Address{.host = hosts_[at_], .port = name_.port}.ToString();
  return zmq_connect(socket_, connected_.c_str()) == 0;
}

void AddressTurns::Look(Time now) {
  while (const auto event = events_.Take()) {
    if (event->what == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
      reached_ = up_ = true;
      failed_ = false;
      wait_ = kFirstWait;
    } else {
      // When a connection breaks, its address is tried again first.
      failed_ = !std::exchange(up_, false);
    }
  }
  if (failed_ && now >= next_) TakeNext(now);
}

void AddressTurns::TakeNext(Time now) {
  if (++at_ >= hosts_.size()) {
    at_ = 0;
    next_ = now + wait_;
    wait_ = std::min(2 * wait_, kLongestWait);
    const auto again = lookup_ ? lookup_->Take() : std::nullopt;
    if (again && again->ok()) hosts_ = InDigits(*again);
    if (!lookup_ || again) lookup_.emplace(name_);
  }
  zmq_disconnect(socket_, connected_.c_str());
  failed_ = !Connect();
}

}  // namespace psgd
