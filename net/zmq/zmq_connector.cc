#include "net/zmq/zmq_connector.h"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <map>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/cores.h"
#include "net/address.h"
#include "net/zmq/zmq_socket.h"

namespace psgd {

absl::Status ZmqConnector::Connect(const std::vector<std::string>& addresses) {
  std::map<std::string, std::vector<std::string>>
      known;  // digits by host; ZeroMQ asks again for unknown ones
  for (const std::string& text : addresses) {
    PSGD_ASSIGN_OR_RETURN(const Address address, ParseTcpAddress(text));
    if (address.port == 0) {
      return InvalidArgumentError("cannot connect to ", text, ": port 0 is for listening only");
    }
    try {
      zmq::socket_t socket = MakeZmqSocket(context_, zmq::socket_type::dealer, options_);
      if (options_.security) SecureConnecting(socket, *options_.security);
      socket.set(zmq::sockopt::ipv6, true);  // always: a name may have only IPv6 addresses
      const auto [hosts, first] = known.try_emplace(address.host);
      if (first) hosts->second = InDigits(resolve_(address.host, address.port));
      std::unique_ptr<AddressTurns> turns;
      if (hosts->second.size() > 1) {
        turns = std::make_unique<AddressTurns>(context_, socket, address, hosts->second);
        PollOn(turns->events());
      } else if (zmq_connect(socket.handle(), address.ToString().c_str()) != 0) {
        return InvalidArgumentError("cannot connect to ", text, ": ", zmq_strerror(zmq_errno()));
      }
      PollOn(sockets_.emplace_back(std::move(socket)));
      turns_.push_back(std::move(turns));
    } catch (const std::exception& error) {
      return ZmqUnavailable(text, error);
    }
  }
  return absl::OkStatus();
}

absl::Status ZmqConnector::Send(PeerId to, const Message& message) {
  if (to >= sockets_.size()) return NotConnected(to);
  if (AddressTurns* const turns = turns_[to].get()) {
    turns->Look(SteadyNow());
    if (!turns->reached()) return Full(to);
  }
  PSGD_ASSIGN_OR_RETURN(const EncodedMessage encoded, Encode(message));
  const int error = SendFrames(sockets_[to], encoded.frames);
  if (error == EAGAIN) return Full(to);
  if (error != 0) return absl::UnavailableError(zmq_strerror(error));
  CountSent(encoded.size);
  return absl::OkStatus();
}

Duration ZmqConnector::Idle() {
  for (const auto& turns : turns_) {
    if (turns != nullptr) turns->Look(SteadyNow());
  }
  return Duration::max();
}

ZmqConnector::Attempt ZmqConnector::TryReceive() {
  // Begins after the socket served last, so that a busy socket does not starve the others.
  for (size_t tried = 0; tried < sockets_.size(); ++tried) {
    const size_t i = next_;
    next_ = (next_ + 1) % sockets_.size();
    const ReceiveResult result = ReceiveFrames(sockets_[i], options_.max_message_bytes, &frames_);
    if (result == ReceiveResult::kNothing) continue;
    if (result == ReceiveResult::kRefused) {
      CountMalformed("a message of too many bytes or frames");
      return {.refused = true, .received = {}};
    }
    std::optional<Message> message = Decode(frames_, "");
    frames_.clear();
    if (!message) return {.refused = true, .received = {}};
    return {.refused = false, .received = Received{i, *std::move(message)}};
  }
  return {};
}

int IoThreads(size_t shards, size_t cores) {
  return static_cast<int>(std::clamp<size_t>(std::min(shards, cores / 4), 1, 4));
}

StatusOrEndpoint ConnectZmq(const std::vector<std::string>& addresses,
                            const TransportOptions& options) {
  try {
    const int io_threads = IoThreads(addresses.size(), UsableCores().busy);
    auto endpoint = std::make_unique<ZmqConnector>(options, &Resolve, io_threads);
    PSGD_RETURN_IF_ERROR(endpoint->Connect(addresses));
    return endpoint;
  } catch (const std::exception& error) {
    return ZmqUnavailable(absl::StrJoin(addresses, ", "), error);
  }
}

}  // namespace psgd
