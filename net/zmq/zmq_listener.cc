// The listening side: one ROUTER socket for all peers.
#include <cerrno>
#include <memory>
#include <utility>

#include "net/address.h"
#include "net/resolve.h"
#include "net/zmq/connection_watch.h"
#include "net/zmq/peer_table.h"
#include "net/zmq/send_budget.h"
#include "net/zmq/zap_handler.h"
#include "net/zmq/zmq_endpoint.h"
#include "net/zmq/zmq_socket.h"

namespace psgd {
namespace {

// Far more than a run's workers. Bounds what a flood of reconnects makes the listener remember.
constexpr size_t kMaxPeers = 65536;

// The bytes that buffers of ZeroMQ and the kernel may hold beyond a message.
constexpr size_t kBufferedBytes = 16u << 20;

// Between two looks at the connections. Nothing wakes the listener for a message without end.
constexpr Duration kBetweenLooks = std::chrono::milliseconds(100);

ConnectionLimits LimitsFor(const TransportOptions& options) {
  ConnectionLimits limits;
  limits.connections = options.peers;
  limits.unfinished_bytes = 2 * options.max_message_bytes + kBufferedBytes;
  limits.waiting_bytes =
      limits.unfinished_bytes + ReceiveQueue(options) * options.max_message_bytes;
  return limits;
}

std::unique_ptr<ZapHandler> ZapHandlerFor(zmq::context_t& context,
                                          const TransportOptions& options) {
  if (!options.security) return nullptr;
  return std::make_unique<ZapHandler>(context, options.security->allowed);
}

class ZmqListener : public ZmqEndpoint {
 public:
  explicit ZmqListener(const TransportOptions& options)
      : ZmqEndpoint(options),
        zap_(ZapHandlerFor(context_, options)),
        socket_(MakeZmqSocket(context_, zmq::socket_type::router, options)),
        watch_(context_, socket_, LimitsFor(options)),
        peers_(kMaxPeers),
        budget_(options.send_queue_bytes) {
    // Otherwise ZeroMQ silently drops messages to lost peers and to peers with a full queue.
    socket_.set(zmq::sockopt::router_mandatory, true);
    if (options.security) SecureListening(socket_, *options.security);
    PollOn(socket_);
    PollOn(watch_.events());
  }

  absl::Status Bind(const Address& address) {
    // ZeroMQ itself takes digits and names of network interfaces.
    std::vector<std::string> hosts = InDigits(Resolve(address.host, address.port));
    if (hosts.empty()) hosts.push_back(address.host);
    int error = 0;
    for (const std::string& host : hosts) {
      const Address at{.host = host, .port = address.port};
      socket_.set(zmq::sockopt::ipv6, at.ipv6());
      if (zmq_bind(socket_.handle(), at.ToString().c_str()) == 0) {
        address_ = socket_.get(zmq::sockopt::last_endpoint);
        return absl::OkStatus();
      }
      error = zmq_errno();
    }
    return ListenError(address, error);
  }

  absl::Status Send(PeerId to, const Message& message) override {
    const std::string* routing_id = peers_.RoutingId(to);
    if (routing_id == nullptr) return Gone(to);
    // This check precedes the checksum, which is the cost of a message that must be sent again
    // later.
    if (!budget_.Fits(to, message.PayloadBytes())) return Full(to);
    PSGD_ASSIGN_OR_RETURN(const EncodedMessage encoded, Encode(message));
    zmq::message_t address(*routing_id);
    if (zmq_msg_send(address.handle(), socket_.handle(), ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0) {
      if (zmq_errno() == EAGAIN) return Full(to);
      peers_.Forget(to);
      budget_.Forget(to);
      return Gone(to);
    }
    if (SendFrames(socket_, budget_.Take(to, encoded.frames)) != 0) return Gone(to);
    CountSent(encoded.size);
    return absl::OkStatus();
  }

  EndpointStats stats() const override {
    EndpointStats stats = ZmqEndpoint::stats();
    stats.over_budget = watch_.ended();
    // Without security, a failed handshake only means that the peer hung up.
    if (options_.security) stats.strangers = watch_.failed_handshakes();
    if (stats.strangers + stats.over_budget > 0 && !watch_.last().empty()) {
      stats.last_turned_away = watch_.last();
    }
    return stats;
  }

 protected:
  Duration Idle() override {
    watch_.Look(/*empty=*/true, SteadyNow());
    return watch_.any() ? kBetweenLooks : Duration::max();  // a new connection ends the wait
  }

  Attempt TryReceive() override {
    zmq::message_t routing_id;
    if (zmq_msg_recv(routing_id.handle(), socket_.handle(), ZMQ_DONTWAIT) < 0) return {};
    const bool body = routing_id.more();
    Origin origin;
    const ReceiveResult result =
        body ? ReceiveFrames(socket_, options_.max_message_bytes, &frames_, &origin)
             : ReceiveResult::kRefused;
    watch_.Delivered(origin.fd);
    watch_.Look(/*empty=*/false, SteadyNow());
    if (result != ReceiveResult::kMessage) {
      CountMalformed("a message of too many bytes or frames");
      return {.refused = true, .received = {}};
    }
    std::optional<Message> message = Decode(frames_, origin.curve_key);
    frames_.clear();
    if (!message) return {.refused = true, .received = {}};
    // Only peers that send valid messages get a place in the table.
    const PeerId from = peers_.Heard(routing_id.to_string());
    return {.refused = false, .received = Received{from, *std::move(message)}};
  }

 private:
  const std::unique_ptr<ZapHandler> zap_;  // outlives the socket
  zmq::socket_t socket_;
  ConnectionWatch watch_;
  PeerTable peers_;
  SendBudget budget_;
  std::vector<Bytes> frames_;  // of the message being received
};

}  // namespace

StatusOrEndpoint ListenZmq(const std::string& address, const TransportOptions& options) {
  PSGD_ASSIGN_OR_RETURN(const Address parsed, ParseTcpAddress(address));
  try {
    auto endpoint = std::make_unique<ZmqListener>(options);
    PSGD_RETURN_IF_ERROR(endpoint->Bind(parsed));
    return endpoint;
  } catch (const std::exception& error) {
    return ZmqUnavailable(address, error);
  }
}

}  // namespace psgd
