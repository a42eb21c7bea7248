// Moves messages between a worker and shards. One interface over ZeroMQ, shared memory, gRPC and
// UCX; tests/conformance runs one suite over all of them.
//
// An Endpoint belongs to one thread, which polls it. A shard's thread reads and writes its own
// endpoint, so no message changes threads on its way into the optimizer. Delivery is at most once
// and in order while a connection lives. A broken connection loses messages silently. SessionCore
// and ShardCore build exactly-once on top.
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

// Names a peer within one endpoint. In a connecting endpoint: the index of the address. In a
// listening endpoint: a number given in order of first contact, never reused.
using PeerId = uint64_t;

struct Received {
  PeerId from = 0;
  Message message;
};

struct EndpointStats {
  uint64_t messages_sent = 0;
  uint64_t bytes_sent = 0;  // on the wire, with our own framing
  uint64_t messages_received = 0;
  uint64_t bytes_received = 0;
  uint64_t malformed = 0;      // bytes that were not a valid message
  std::string last_malformed;  // why, for people
  // In a secured listener: refused connections, and messages in the name of another worker.
  uint64_t strangers = 0;
  uint64_t impostors = 0;
  uint64_t over_budget = 0;      // connections closed or refused over a limit
  std::string last_turned_away;  // why, for people
  std::string detour;            // why messages take a slower way, for people; empty: they do not
};

// Belongs to one thread, except Wake, which is thread-safe.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  // Queues the message; never blocks. RESOURCE_EXHAUSTED: the peer's queue is full; send later.
  // UNAVAILABLE: the peer is gone (a connecting endpoint queues instead, until the peer is back).
  // INVALID_ARGUMENT: the message is too large. Payloads are shared until sent, and another thread
  // releases them.
  virtual absl::Status Send(PeerId to, const Message& message) = 0;

  // Returns the next message, or nothing after `timeout`, Wake or malformed input (which is
  // counted). Payloads are aligned to 8 bytes and may outlive the endpoint. Also repairs broken
  // connections.
  virtual std::optional<Received> Receive(Duration timeout) = 0;

  // Makes the waiting Receive return, or else the next Receive. Thread-safe.
  virtual void Wake() = 0;

  // The address that peers connect to. Only for a listening endpoint.
  virtual const std::string& address() const = 0;

  virtual EndpointStats stats() const = 0;
};

using StatusOrEndpoint = absl::StatusOr<std::unique_ptr<Endpoint>>;

struct TransportSecurity;  // net/transport_security.h

struct TransportOptions {
  size_t max_message_bytes = 64u << 20;  // larger messages are refused unread
  size_t queue_bytes = 256u << 20;       // received and not yet taken
  int send_queue_messages = 1024;        // a peer
  size_t send_queue_bytes = 64u << 20;   // for each peer; a larger message goes alone
  size_t peers = 8192;  // of a listener with a port, at one time; further peers are refused
  // How long an endpoint's destructor waits until queued messages are sent.
  Duration linger = Milliseconds(1000);
  // How long a listener may give no answer over UCX. Then AUTO takes ZeroMQ, and UCX warns. Time in
  // which this process stands still does not count.
  Duration patience = std::chrono::seconds(5);
  // Whether this machine counts as having a fast network, for AUTO; nullopt: what HasFastNetwork
  // finds. Tests set it; then AUTO listens for UCX at loopback, too.
  std::optional<bool> fast_network = std::nullopt;
  // Null: no authentication and no encryption.
  std::shared_ptr<const TransportSecurity> security;
  Log log = NullLog();
};

// Thread-safe.
class Transport {
 public:
  virtual ~Transport() = default;
  // `address`: "tcp://127.0.0.1:0" (0: any free port), or "ipc://name".
  // An error names the address and the reason (in use, not of this machine).
  virtual StatusOrEndpoint Listen(const std::string& address) = 0;
  // Does not wait for the other side.
  virtual StatusOrEndpoint Connect(const std::vector<std::string>& addresses) = 0;
};

absl::StatusOr<std::unique_ptr<Transport>> MakeTransport(ClusterConfig::Transport kind,
                                                         const TransportOptions& options);

}  // namespace psgd
