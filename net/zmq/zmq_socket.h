// Sockets with our options; sends and receives multipart messages without copies.
#pragma once

#include <span>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "common/bytes.h"
#include "net/transport.h"
#include "net/transport_security.h"

namespace psgd {

zmq::socket_t MakeZmqSocket(zmq::context_t& context, zmq::socket_type type,
                            const TransportOptions& options);

// Set up CURVE. REQUIRES: the socket has not yet bound or connected; a listening socket needs a
// ZapHandler in its context.
void SecureListening(zmq::socket_t& socket, const TransportSecurity& security);
void SecureConnecting(zmq::socket_t& socket, const TransportSecurity& security);

// The number of whole messages that a socket queues for each peer.
int ReceiveQueue(const TransportOptions& options);

// Sends the frames as the rest of a message. Never blocks. Returns 0, or an errno when nothing of
// the message is sent.
int SendFrames(zmq::socket_t& socket, std::span<const Bytes> frames);

enum class ReceiveResult { kNothing, kMessage, kRefused };

// The connection that brought a message. ZeroMQ attaches it to the frames, not always to the
// routing id before them.
struct Origin {
  int fd = -1;
  std::string curve_key;  // the peer's proven key; empty without CURVE
};

// Takes a message if one waits. kRefused: the message had more than `max_bytes`, or more frames
// than our senders make, and was discarded. Frames own their zmq messages.
ReceiveResult ReceiveFrames(zmq::socket_t& socket, size_t max_bytes, std::vector<Bytes>* frames,
                            Origin* origin = nullptr);

}  // namespace psgd
