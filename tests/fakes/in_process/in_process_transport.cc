// One mutex guards all queues of a transport. That is simple, and only endpoints that talk to each
// other contend for it.
#include "tests/fakes/in_process/in_process_transport.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "net/endpoint_base.h"
#include "net/wire_format.h"

namespace psgd {
namespace {

struct Connection;

struct Parcel {
  std::shared_ptr<Connection> connection;
  Message message;
  size_t size = 0;
};

// Messages that an endpoint has received and not yet taken.
struct Inbox {
  std::condition_variable arrived;
  std::deque<Parcel> parcels;
  size_t bytes = 0;
  bool woken = false;
  // Used by a listening endpoint.
  std::map<PeerId, std::shared_ptr<Connection>> peers;
  PeerId next_peer = 0;
};

// One address of a connecting endpoint. Lives until both sides release it.
struct Connection {
  std::string name;
  PeerId index = 0;            // at the connecting side
  PeerId peer = 0;             // at the listening side
  Inbox* connector = nullptr;  // null once that endpoint is gone
  Inbox* listener = nullptr;   // null without a listener
  int to_listener = 0;         // parcels under way
  int to_connector = 0;
  std::deque<Parcel> waiting;  // sent while there was no listener
};

// The state that the endpoints of one transport share.
struct Hub {
  std::mutex mutex;  // guards everything below and all inboxes and connections
  std::map<std::string, Inbox*> listeners;
  std::set<std::shared_ptr<Connection>> connections;

  void Link(const std::shared_ptr<Connection>& connection, Inbox* listener) {
    connection->listener = listener;
    connection->peer = listener->next_peer++;
    listener->peers[connection->peer] = connection;
    while (!connection->waiting.empty()) {
      Deliver(std::move(connection->waiting.front()), listener);
      connection->waiting.pop_front();
    }
  }

  static void Deliver(Parcel parcel, Inbox* inbox) {
    inbox->bytes += parcel.size;
    inbox->parcels.push_back(std::move(parcel));
    inbox->arrived.notify_one();
  }
};

class InProcessEndpoint : public EndpointBase {
 public:
  InProcessEndpoint(std::shared_ptr<Hub> hub, const TransportOptions& options, std::string address)
      : EndpointBase(options), hub_(std::move(hub)) {
    address_ = std::move(address);
  }

  std::optional<Received> Receive(Duration timeout) override {
    std::unique_lock lock(hub_->mutex);
    const auto ready = [&] { return inbox_.woken || !inbox_.parcels.empty(); };
    // A bounded wait keeps the deadline within the clock's range.
    inbox_.arrived.wait_for(lock, std::min<Duration>(timeout, std::chrono::hours(24)), ready);
    if (std::exchange(inbox_.woken, false) || inbox_.parcels.empty()) return std::nullopt;
    Parcel parcel = std::move(inbox_.parcels.front());
    inbox_.parcels.pop_front();
    inbox_.bytes -= parcel.size;
    Connection& connection = *parcel.connection;
    const bool listening = connection.connector != &inbox_;
    --(listening ? connection.to_listener : connection.to_connector);
    CountReceived(parcel.size);
    return Received{.from = listening ? connection.peer : connection.index,
                    .message = std::move(parcel.message)};
  }

  void Wake() override {
    std::lock_guard lock(hub_->mutex);
    inbox_.woken = true;
    inbox_.arrived.notify_one();
  }

 protected:
  // Returns the message as it will arrive, or why it cannot be sent.
  absl::StatusOr<Parcel> Pack(const Message& message) const {
    PSGD_ASSIGN_OR_RETURN(const size_t size, EncodedSize(message, options_.max_message_bytes));
    Parcel parcel{.connection = nullptr, .message = message, .size = size};
    parcel.message.header.clear_payload_sizes();
    for (const Bytes& payload : message.payloads) {
      parcel.message.header.add_payload_sizes(static_cast<uint32_t>(payload.size()));
    }
    return parcel;
  }

  bool IsFull(const Inbox& inbox, int under_way) const {
    return inbox.bytes >= options_.queue_bytes || under_way >= options_.send_queue_messages;
  }

  const std::shared_ptr<Hub> hub_;
  Inbox inbox_;  // guarded by hub_->mutex
};

class InProcessListener : public InProcessEndpoint {
 public:
  using InProcessEndpoint::InProcessEndpoint;

  // REQUIRES: hub_->mutex is held.
  void Open() {
    hub_->listeners[address_] = &inbox_;
    for (const auto& connection : hub_->connections) {
      if (connection->name == address_) hub_->Link(connection, &inbox_);
    }
  }

  ~InProcessListener() override {
    std::lock_guard lock(hub_->mutex);
    hub_->listeners.erase(address_);
    for (auto& [peer, connection] : inbox_.peers) {
      connection->listener = nullptr;
      connection->to_listener = 0;
    }
  }

  absl::Status Send(PeerId to, const Message& message) override {
    PSGD_ASSIGN_OR_RETURN(Parcel parcel, Pack(message));
    std::lock_guard lock(hub_->mutex);
    auto it = inbox_.peers.find(to);
    if (it == inbox_.peers.end()) return Gone(to);
    parcel.connection = it->second;
    Connection& connection = *parcel.connection;
    if (IsFull(*connection.connector, connection.to_connector)) return Full(to);
    CountSent(parcel.size);
    ++connection.to_connector;
    Hub::Deliver(std::move(parcel), connection.connector);
    return absl::OkStatus();
  }
};

class InProcessConnector : public InProcessEndpoint {
 public:
  using InProcessEndpoint::InProcessEndpoint;

  // REQUIRES: hub_->mutex is held.
  void Open(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      auto connection = std::make_shared<Connection>();
      connection->name = name;
      connection->index = connections_.size();
      connection->connector = &inbox_;
      connections_.push_back(connection);
      hub_->connections.insert(connection);
      auto it = hub_->listeners.find(name);
      if (it != hub_->listeners.end()) hub_->Link(connection, it->second);
    }
  }

  ~InProcessConnector() override {
    std::lock_guard lock(hub_->mutex);
    for (const auto& connection : connections_) {
      connection->connector = nullptr;
      connection->waiting.clear();
      if (connection->listener != nullptr) connection->listener->peers.erase(connection->peer);
      hub_->connections.erase(connection);
    }
  }

  absl::Status Send(PeerId to, const Message& message) override {
    if (to >= connections_.size()) return NotConnected(to);
    PSGD_ASSIGN_OR_RETURN(Parcel parcel, Pack(message));
    std::lock_guard lock(hub_->mutex);
    parcel.connection = connections_[to];
    Connection& connection = *parcel.connection;
    Inbox* const listener = connection.listener;
    const bool full = listener != nullptr ? IsFull(*listener, connection.to_listener)
                                          : static_cast<int>(connection.waiting.size()) >=
                                                options_.send_queue_messages;
    if (full) return Full(to);
    CountSent(parcel.size);
    ++connection.to_listener;
    if (listener != nullptr) {
      Hub::Deliver(std::move(parcel), listener);
    } else {
      connection.waiting.push_back(std::move(parcel));
    }
    return absl::OkStatus();
  }

 private:
  std::vector<std::shared_ptr<Connection>> connections_;
};

class InProcessTransport : public Transport {
 public:
  explicit InProcessTransport(const TransportOptions& options)
      : options_(options), hub_(std::make_shared<Hub>()) {}

  StatusOrEndpoint Listen(const std::string& address) override {
    std::lock_guard lock(hub_->mutex);
    if (hub_->listeners.contains(address)) {
      return AlreadyExistsError("cannot listen at \"", address,
                                "\": another endpoint of this process does; choose another name");
    }
    auto endpoint = std::make_unique<InProcessListener>(hub_, options_, address);
    endpoint->Open();
    return endpoint;
  }

  StatusOrEndpoint Connect(const std::vector<std::string>& addresses) override {
    auto endpoint = std::make_unique<InProcessConnector>(hub_, options_, "");
    std::lock_guard lock(hub_->mutex);
    endpoint->Open(addresses);
    return endpoint;
  }

 private:
  const TransportOptions options_;
  const std::shared_ptr<Hub> hub_;
};

}  // namespace

std::unique_ptr<Transport> MakeInProcessTransport(const TransportOptions& options) {
  return std::make_unique<InProcessTransport>(options);
}

}  // namespace psgd
