#include "net/zmq/zap_handler.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace psgd {
namespace {

constexpr char kAddress[] = "inproc://zeromq.zap.01";
constexpr char kVersion[] = "1.0";
constexpr size_t kBinaryKeyBytes = 32;

// The positions of a request's frames. A reply repeats the first two.
enum Frame { kVersionFrame, kRequestFrame, kDomain, kPeerAddress, kRoutingId, kMechanism, kKey };

// Returns the Z85 text of a binary key, or "" if `binary` is not a key.
std::string Z85Key(const std::string& binary) {
  if (binary.size() != kBinaryKeyBytes) return "";
  std::array<char, kBinaryKeyBytes * 5 / 4 + 1> text{};
  zmq_z85_encode(text.data(), reinterpret_cast<const uint8_t*>(binary.data()), kBinaryKeyBytes);
  return text.data();
}

}  // namespace

ZapHandler::ZapHandler(zmq::context_t& context, std::shared_ptr<const AllowList> allowed)
    : allowed_(std::move(allowed)), socket_(context, zmq::socket_type::rep) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.bind(kAddress);
  thread_ = std::thread([this] { Serve(); });
}

ZapHandler::~ZapHandler() {
  stop_.Set();
  thread_.join();
}

void ZapHandler::Serve() {
  zmq_pollitem_t items[] = {
      {.socket = nullptr, .fd = stop_.fd(), .events = ZMQ_POLLIN, .revents = 0},
      {.socket = socket_.handle(), .fd = 0, .events = ZMQ_POLLIN, .revents = 0}};
  while (true) {
    if (zmq_poll(items, 2, -1) < 0 && zmq_errno() == ETERM) return;
    if (stop_.Take()) return;
    if ((items[1].revents & ZMQ_POLLIN) != 0) Answer();
  }
}

void ZapHandler::Answer() {
  std::vector<std::string> request;
  bool more = true;
  while (more) {
    zmq::message_t frame;
    if (zmq_msg_recv(frame.handle(), socket_.handle(), 0) < 0) return;
    more = frame.more();
    request.push_back(frame.to_string());
  }
  const bool asked = request.size() == kKey + 1 && request[kMechanism] == "CURVE";
  const std::string key = asked ? Z85Key(request[kKey]) : "";
  const bool allowed = !key.empty() && allowed_->Knows(key);
  const std::vector<std::string> reply = {
      kVersion,
      request.size() > kRequestFrame ? request[kRequestFrame] : "",
      allowed ? "200" : "400",
      allowed ? "" : "not a member of the run",
      key,
      ""};  // no metadata
  for (size_t i = 0; i < reply.size(); ++i) {
    const int flags = i + 1 < reply.size() ? ZMQ_SNDMORE : 0;
    if (zmq_send(socket_.handle(), reply[i].data(), reply[i].size(), flags) < 0) return;
  }
}

}  // namespace psgd
