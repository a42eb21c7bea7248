// The listening side: one ROUTER socket for all peers.
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/address.h"
#include "net/zmq/peer_table.h"
#include "net/zmq/send_budget.h"
#include "net/zmq/zmq_endpoint.h"
#include "net/zmq/zmq_socket.h"

namespace psgd {
namespace {

// Far more than a run has workers; what a flood of reconnects can make us remember.
constexpr size_t kMaxPeers = 65536;

class ZmqListener : public ZmqEndpoint {
 public:
  explicit ZmqListener(const TransportOptions& options)
      : ZmqEndpoint(options),
        socket_(MakeZmqSocket(context_, zmq::socket_type::router, options)),
        peers_(kMaxPeers),
        budget_(options.send_queue_bytes) {
    // Else messages to peers that are gone, or full, vanish without a word.
    socket_.set(zmq::sockopt::router_mandatory, true);
    PollOn(socket_);
  }

  absl::Status Bind(const Address& address) {
    if (address.scheme == Address::Scheme::kIpc) {
      // ZeroMQ would take the path away from a living process.
      PSGD_ASSIGN_OR_RETURN(const bool in_use, IpcInUse(address));
      if (in_use) return ListenError(address, EADDRINUSE);
    }
    socket_.set(zmq::sockopt::ipv6, address.ipv6());
    if (zmq_bind(socket_.handle(), address.ToString().c_str()) != 0) {
      return ListenError(address, zmq_errno());
    }
    address_ = socket_.get(zmq::sockopt::last_endpoint);
    return absl::OkStatus();
  }

  absl::Status Send(PeerId to, const Message& message) override {
    const std::string* routing_id = peers_.RoutingId(to);
    if (routing_id == nullptr) return Gone(to);
    // Before its checksum is computed, which is what a message costs that has to be tried again.
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
    CountSent(encoded);
    return absl::OkStatus();
  }

  const std::string& address() const override { return address_; }

 protected:
  Attempt TryReceive() override {
    zmq::message_t routing_id;
    if (zmq_msg_recv(routing_id.handle(), socket_.handle(), ZMQ_DONTWAIT) < 0) return {};
    const bool body = routing_id.more();
    const ReceiveResult result = body ? ReceiveFrames(socket_, options_.max_message_bytes, &frames_)
                                      : ReceiveResult::kRefused;
    if (result != ReceiveResult::kMessage) {
      CountMalformed("a message of too many bytes or frames");
      return {.refused = true, .received = {}};
    }
    std::optional<Message> message = Decode(frames_);
    frames_.clear();
    if (!message) return {.refused = true, .received = {}};
    // Only who sends proper messages gets a place in the table.
    const PeerId from = peers_.Heard(routing_id.to_string());
    return {.refused = false, .received = Received{from, *std::move(message)}};
  }

 private:
  static absl::Status Gone(PeerId peer) {
    return absl::UnavailableError(absl::StrCat("peer ", peer, " is gone"));
  }

  static absl::Status Full(PeerId peer) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the queue of peer ", peer, " is full; send again later"));
  }

  zmq::socket_t socket_;
  PeerTable peers_;
  SendBudget budget_;
  std::string address_;
  std::vector<Bytes> frames_;  // of the message being received
};

}  // namespace

absl::StatusOr<std::unique_ptr<Endpoint>> ListenZmq(const std::string& address,
                                                    const TransportOptions& options) {
  PSGD_ASSIGN_OR_RETURN(const Address parsed, ParseAddress(address));
  try {
    auto endpoint = std::make_unique<ZmqListener>(options);
    PSGD_RETURN_IF_ERROR(endpoint->Bind(parsed));
    return endpoint;
  } catch (const std::exception& error) {
    return ZmqUnavailable(address, error);
  }
}

}  // namespace psgd
