// Moves messages between a worker and shards. One interface over ZeroMQ (tcp, ipc), gRPC and
// in-process queues; tests/conformance runs one suite over all of them.
//
// An Endpoint belongs to one thread, which polls it: a shard's thread is its transport's reader and
// writer, so that no message changes threads on its way into the optimizer. Delivery is at most
// once and in order while a connection lives; a peer that goes away loses what was under way
// without a word. Exactly-once is made above, in session_core and shard_core.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/log.h"
#include "common/status.h"
#include "net/message.h"
#include "proto/config.pb.h"

namespace psgd {

// Names the other side of a connection within one endpoint. For a connecting endpoint: the index of
// the address. For a listening one: given in order of first contact, never reused.
using PeerId = uint64_t;

struct Received {
  PeerId from = 0;
  Message message;
};

struct EndpointStats {
  uint64_t messages_sent = 0;
  uint64_t bytes_sent = 0;  // on the wire, framing of ours included
  uint64_t messages_received = 0;
  uint64_t bytes_received = 0;
  uint64_t malformed = 0;      // refused by the wire format before they became messages
  std::string last_malformed;  // why, for people
  // Of a secured listener: who was turned away, and messages in the name of another worker.
  uint64_t strangers = 0;
  uint64_t impostors = 0;
  uint64_t over_budget = 0;      // connections ended that took more than their share
  std::string last_turned_away;  // why, for people
};

// Owned by one thread, except Wake.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  // Queues the message; never blocks. RESOURCE_EXHAUSTED when the peer's queue is full (send
  // later); UNAVAILABLE when the peer is gone (a connecting endpoint does not say so: it queues
  // until the peer is there again); INVALID_ARGUMENT when the message is larger than allowed.
  // Payloads are shared until they have left: their owners' counts drop on another thread.
  virtual absl::Status Send(PeerId to, const Message& message) = 0;

  // The next message; nothing after `timeout`, after Wake, or after malformed input (counted). Its
  // payloads are aligned to 8 bytes and may outlive the endpoint. Also repairs broken connections.
  virtual std::optional<Received> Receive(Duration timeout) = 0;

  // Makes a Receive that waits, or else the next one, return. Thread-safe.
  virtual void Wake() = 0;

  // Where peers can connect: of a listening endpoint only.
  virtual const std::string& address() const = 0;

  virtual EndpointStats stats() const = 0;
};

struct TransportSecurity;  // net/transport_security.h

struct TransportOptions {
  size_t max_message_bytes = 64u << 20;  // larger ones are refused unread
  size_t queue_bytes = 256u << 20;       // received and not yet taken
  int send_queue_messages = 1024;        // a peer
  size_t send_queue_bytes = 64u << 20;   // a peer; a larger message goes alone
  size_t peers = 8192;  // at once, of a listener with a port; further ones are turned away
  // How long the destructor of an endpoint waits for what was sent to leave.
  Duration linger = Milliseconds(1000);
  // Null: anybody may connect, and whoever listens in can read.
  std::shared_ptr<const TransportSecurity> security;
  Log log = NullLog();
};

// Thread-safe.
class Transport {
 public:
  virtual ~Transport() = default;
  // `address`: "tcp://127.0.0.1:0" (0: any free port), "ipc:///path" or a name in-process.
  // An error says which address and why (in use, not ours).
  virtual absl::StatusOr<std::unique_ptr<Endpoint>> Listen(const std::string& address) = 0;
  // Does not wait for the other side to be there.
  virtual absl::StatusOr<std::unique_ptr<Endpoint>> Connect(
      const std::vector<std::string>& addresses) = 0;
};

absl::StatusOr<std::unique_ptr<Transport>> MakeTransport(ClusterConfig::Transport kind,
                                                         const TransportOptions& options);
// Endpoints of one process, found by name; for tests, the simulator and benchmarks.
std::unique_ptr<Transport> MakeInProcessTransport(const TransportOptions& options);

}  // namespace psgd
