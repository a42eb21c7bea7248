#include "net/zmq/zmq_socket.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "net/handoff.h"
#include "net/wire_format.h"

namespace psgd {
namespace {

// ZeroMQ bounds its queues by messages, not bytes. The queue is deep enough that the IO thread and
// the reader do not wake each other at every message, and shallow enough to bound large messages.
constexpr size_t kMinReceiveQueue = 16;
constexpr size_t kMaxReceiveQueue = 1024;

// Two large payloads can have one frame of small ones between them.
constexpr size_t MaxFrames(size_t max_bytes) { return 2 * (max_bytes / kCoalesceBelow) + 2; }

void ReleaseHandoff(void* /*data*/, void* handoff) { Handoff::Release(handoff); }

zmq::message_t Share(const Bytes& bytes) {
  // ZeroMQ never writes to a message it sends.
  auto* data = const_cast<std::byte*>(bytes.data());
  return zmq::message_t(data, bytes.size(), ReleaseHandoff, Handoff::Take(bytes));
}

Origin OriginOf(zmq::message_t& frame) {
  Origin origin;
  origin.fd = zmq_msg_get(frame.handle(), ZMQ_SRCFD);
  const char* key = zmq_msg_gets(frame.handle(), "User-Id");
  if (key != nullptr) origin.curve_key = key;
  return origin;
}

Bytes Own(zmq::message_t message) {
  auto owner = std::make_shared<zmq::message_t>(std::move(message));
  const ByteSpan span(static_cast<const std::byte*>(owner->data()), owner->size());
  return Bytes(std::move(owner), span);
}

}  // namespace

zmq::socket_t MakeZmqSocket(zmq::context_t& context, zmq::socket_type type,
                            const TransportOptions& options) {
  zmq::socket_t socket(context, type);
  namespace opt = zmq::sockopt;
  socket.set(opt::linger, static_cast<int>(options.linger / Milliseconds(1)));
  socket.set(opt::maxmsgsize, static_cast<int64_t>(options.max_message_bytes));
  socket.set(opt::sndhwm, options.send_queue_messages);
  socket.set(opt::rcvhwm, ReceiveQueue(options));
  socket.set(opt::backlog, 1024);
  socket.set(opt::handshake_ivl, 10'000);
  socket.set(opt::connect_timeout, 5'000);
  socket.set(opt::reconnect_ivl, 50);
  socket.set(opt::reconnect_ivl_max, 2'000);
  // TCP notices a vanished host. ZMTP heartbeats would also end the connection of a busy reader: no
  // pong is read while the receive queue is full.
  socket.set(opt::tcp_keepalive, 1);
  socket.set(opt::tcp_keepalive_idle, 10);
  socket.set(opt::tcp_keepalive_intvl, 5);
  socket.set(opt::tcp_keepalive_cnt, 3);
  return socket;
}

void SecureListening(zmq::socket_t& socket, const TransportSecurity& security) {
  socket.set(zmq::sockopt::curve_server, true);
  socket.set(zmq::sockopt::curve_secretkey, security.curve.secret_key);
  socket.set(zmq::sockopt::zap_domain, "psgd");
}

void SecureConnecting(zmq::socket_t& socket, const TransportSecurity& security) {
  socket.set(zmq::sockopt::curve_serverkey, security.server_curve_key);
  socket.set(zmq::sockopt::curve_publickey, security.curve.public_key);
  socket.set(zmq::sockopt::curve_secretkey, security.curve.secret_key);
}

int ReceiveQueue(const TransportOptions& options) {
  return static_cast<int>(
      std::clamp(options.queue_bytes / std::max<size_t>(options.max_message_bytes, 1),
                 kMinReceiveQueue, kMaxReceiveQueue));
}

int SendFrames(zmq::socket_t& socket, std::span<const Bytes> frames) {
  int error = 0;
  for (size_t i = 0; i < frames.size(); ++i) {
    const bool last = i + 1 == frames.size();
    zmq::message_t frame = Share(frames[i]);
    const int flags = ZMQ_DONTWAIT | (last ? 0 : ZMQ_SNDMORE);
    if (zmq_msg_send(frame.handle(), socket.handle(), flags) >= 0) continue;
    error = zmq_errno();
    // A refused first frame refuses the whole message. When a connection ends between two frames,
    // ZeroMQ drops the message so far and swallows its remaining frames, so these must still be
    // sent.
    if (i == 0) break;
  }
  return error;
}

ReceiveResult ReceiveFrames(zmq::socket_t& socket, size_t max_bytes, std::vector<Bytes>* frames,
                            Origin* origin) {
  frames->clear();
  size_t total = 0;
  bool refused = false;
  for (bool more = true; more;) {
    zmq::message_t frame;
    if (zmq_msg_recv(frame.handle(), socket.handle(), ZMQ_DONTWAIT) < 0) {
      // Messages arrive whole: only the first frame can be missing.
      return frames->empty() && !refused ? ReceiveResult::kNothing : ReceiveResult::kRefused;
    }
    if (origin != nullptr && total == 0) *origin = OriginOf(frame);
    more = frame.more();
    total += frame.size();
    refused = refused || total > max_bytes || frames->size() >= MaxFrames(max_bytes);
    if (refused) {
      frames->clear();
    } else {
      frames->push_back(Own(std::move(frame)));
    }
  }
  return refused ? ReceiveResult::kRefused : ReceiveResult::kMessage;
}

}  // namespace psgd
