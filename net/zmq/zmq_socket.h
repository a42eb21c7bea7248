// Sockets with our options, and multipart messages in and out of them without copies.
#pragma once

#include <span>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "common/bytes.h"
#include "net/transport.h"
#include "net/transport_security.h"

namespace psgd {

// Each endpoint has a context, hence an IO thread, of its own: shards do not share one, and
// destroying an endpoint waits for its own messages only.
zmq::context_t MakeZmqContext();

zmq::socket_t MakeZmqSocket(zmq::context_t& context, zmq::socket_type type,
                            const TransportOptions& options);

// CURVE: before the socket binds or connects. A listening one needs a ZapHandler beside it.
void SecureListening(zmq::socket_t& socket, const TransportSecurity& security);
void SecureConnecting(zmq::socket_t& socket, const TransportSecurity& security);

// Whole messages that a socket keeps for its reader, for each peer.
int ReceiveQueue(const TransportOptions& options);

// Sends the frames as the rest of a message. Never blocks. 0 or an errno; the message is then sent
// not at all.
int SendFrames(zmq::socket_t& socket, std::span<const Bytes> frames);

enum class ReceiveResult { kNothing, kMessage, kRefused };

// What ZeroMQ says of the connection that brought a message: with its frames, not always with the
// routing id before them.
struct Origin {
  int fd = -1;
  std::string curve_key;  // that the peer proved to have; empty without CURVE
};

// Takes a message if one is there. kRefused: more than `max_bytes` or more frames than any sender
// of ours makes; it was thrown away. Frames own their zmq messages.
ReceiveResult ReceiveFrames(zmq::socket_t& socket, size_t max_bytes, std::vector<Bytes>* frames,
                            Origin* origin = nullptr);

}  // namespace psgd
