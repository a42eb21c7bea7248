#include "net/auto/auto_endpoint.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/address.h"
#include "net/auto/auto_address.h"
#include "net/auto/machine_id.h"
#include "net/ipc/handshake.h"
#include "net/ipc/ipc_endpoint.h"
#include "net/zmq/zmq_endpoint.h"

namespace psgd {
namespace {

// Waits at the remote endpoint, which the local endpoint's descriptor interrupts.
class AutoEndpoint : public Endpoint {
 public:
  // Either may be null, but not both.
  AutoEndpoint(std::unique_ptr<Endpoint> local, std::unique_ptr<Endpoint> remote,
               std::string address)
      : local_(static_cast<IpcEndpoint*>(local.release())),
        remote_(static_cast<ZmqEndpoint*>(remote.release())),
        address_(std::move(address)) {
    if (local_ != nullptr && remote_ != nullptr) remote_->AlsoEndOn(local_->fd());
  }

  absl::Status Send(PeerId to, const Message& message) override {
    const Way way = WayTo(to);
    Endpoint* const endpoint = way.local ? static_cast<Endpoint*>(local_.get()) : remote_.get();
    // What the endpoint says of an unknown peer is right here, too.
    return endpoint == nullptr ? UnavailableError("peer ", to, " is gone")
                               : endpoint->Send(way.peer, message);
  }

  std::optional<Received> Receive(Duration timeout) override {
    if (remote_ == nullptr) return From(true, local_->Receive(timeout));
    if (local_ == nullptr) return From(false, remote_->Receive(timeout));
    const Time deadline = SteadyNow() + std::min<Duration>(timeout, std::chrono::hours(24));
    while (true) {
      // A look at the remote endpoint takes as long as a local message, so it is not worth one for
      // each; but busy local peers must not starve the others.
      const bool remote_first = ++turn_ % kRemoteTurn == 0;
      if (!remote_first) {
        if (auto received = local_->Receive(Duration::zero()))
          return From(true, std::move(received));
      }
      const Duration left = std::max(deadline - SteadyNow(), Duration::zero());
      const bool waits = !remote_first && left > Duration::zero();
      if (waits && !local_->BeginWait()) continue;
      auto received =
          remote_->Receive(waits ? std::min<Duration>(left, kLongestWait) : Duration::zero());
      if (waits) local_->EndWait();
      if (received) {
        turn_ = kRemoteTurn - 2;  // more may be there: after one local message it is next
        return From(false, std::move(received));
      }
      // Wake is the remote endpoint's. A refused message ends a Receive, too: the caller comes
      // again.
      if (remote_->TakeWoken()) return std::nullopt;
      if (!remote_first && left == Duration::zero()) return std::nullopt;
    }
  }

  void Wake() override {
    if (remote_ != nullptr) return remote_->Wake();
    local_->Wake();
  }

  const std::string& address() const override { return address_; }

  EndpointStats stats() const override {
    EndpointStats sum;
    for (const Endpoint* endpoint : {static_cast<const Endpoint*>(local_.get()),
                                     static_cast<const Endpoint*>(remote_.get())}) {
      if (endpoint == nullptr) continue;
      const EndpointStats stats = endpoint->stats();
      sum.messages_sent += stats.messages_sent;
      sum.bytes_sent += stats.bytes_sent;
      sum.messages_received += stats.messages_received;
      sum.bytes_received += stats.bytes_received;
      sum.malformed += stats.malformed;
      sum.strangers += stats.strangers;
      sum.impostors += stats.impostors;
      sum.over_budget += stats.over_budget;
      if (!stats.last_malformed.empty()) sum.last_malformed = stats.last_malformed;
      if (!stats.last_turned_away.empty()) sum.last_turned_away = stats.last_turned_away;
    }
    return sum;
  }

 protected:
  struct Way {
    bool local = false;
    PeerId peer = 0;  // of that endpoint
  };
  virtual Way WayTo(PeerId peer) const = 0;
  virtual PeerId PeerOf(Way way) const = 0;

 private:
  // A local connection that is to be made again asks for a look now and then.
  static constexpr Duration kLongestWait = std::chrono::milliseconds(50);
  static constexpr uint64_t kRemoteTurn = 16;  // of the looks, one is at the remote endpoint first

  std::optional<Received> From(bool local, std::optional<Received> received) const {
    if (received) received->from = PeerOf({local, received->from});
    return received;
  }

  const std::unique_ptr<IpcEndpoint> local_;
  const std::unique_ptr<ZmqEndpoint> remote_;
  const std::string address_;
  uint64_t turn_ = 0;
};

class AutoListener : public AutoEndpoint {
 public:
  using AutoEndpoint::AutoEndpoint;

 protected:
  Way WayTo(PeerId peer) const override { return {peer % 2 != 0, peer / 2}; }
  PeerId PeerOf(Way way) const override { return 2 * way.peer + (way.local ? 1 : 0); }
};

class AutoConnector : public AutoEndpoint {
 public:
  // `local`, `remote`: the indices of the addresses that each reaches, in its order.
  AutoConnector(std::unique_ptr<Endpoint> local_endpoint, std::unique_ptr<Endpoint> remote_endpoint,
                std::vector<PeerId> local, std::vector<PeerId> remote)
      : AutoEndpoint(std::move(local_endpoint), std::move(remote_endpoint), ""),
        peers_{std::move(remote), std::move(local)},
        ways_(peers_[0].size() + peers_[1].size()) {
    for (const bool is_local : {false, true}) {
      for (PeerId i = 0; i < peers_[is_local].size(); ++i)
        ways_[peers_[is_local][i]] = {is_local, i};
    }
  }

  absl::Status Send(PeerId to, const Message& message) override {
    if (to >= ways_.size()) return InvalidArgumentError("no address ", to, " was connected");
    return AutoEndpoint::Send(to, message);
  }

 protected:
  Way WayTo(PeerId peer) const override { return ways_[peer]; }
  PeerId PeerOf(Way way) const override { return peers_[way.local][way.peer]; }

 private:
  const std::vector<PeerId> peers_[2];  // [1]: local
  std::vector<Way> ways_;               // by index of the address
};

// Whether the listener is on this machine and lets itself be reached.
bool IsHere(const AutoAddress& address, const std::string& this_machine) {
  if (address.ipc.empty() || address.machine != this_machine) return false;
  const auto path = ParseAddress(address.ipc);
  if (!path.ok()) return false;
  const absl::StatusOr<FileDescriptor> socket = ConnectUnix(*path);
  return socket.ok() && IsOwnUser(socket->get());
}

}  // namespace

StatusOrEndpoint ListenAuto(const std::string& address, const TransportOptions& options) {
  PSGD_ASSIGN_OR_RETURN(AutoAddress parsed, ParseAutoAddress(address));
  auto remote = ListenZmq(parsed.tcp, options);
  if (!remote.ok()) return Annotate(remote.status(), absl::StrCat("cannot listen at ", address));
  parsed.tcp = (*remote)->address();
  std::unique_ptr<Endpoint> local;
  if (!parsed.ipc.empty()) {
    PSGD_ASSIGN_OR_RETURN(local, ListenIpc(parsed.ipc, options));
    parsed.machine = MachineId();
  }
  return std::make_unique<AutoListener>(std::move(local), *std::move(remote), parsed.ToString());
}

StatusOrEndpoint ConnectAuto(const std::vector<std::string>& addresses,
                             const TransportOptions& options) {
  std::vector<PeerId> peers[2];  // [1]: local
  std::vector<std::string> reached[2];
  const std::string this_machine = MachineId();
  for (const std::string& text : addresses) {
    PSGD_ASSIGN_OR_RETURN(const AutoAddress address, ParseAutoAddress(text));
    const bool here = IsHere(address, this_machine);
    reached[here].push_back(here ? address.ipc : address.tcp);
    peers[here].push_back(peers[0].size() + peers[1].size());
  }
  std::unique_ptr<Endpoint> local, remote;
  if (!reached[1].empty()) {
    PSGD_ASSIGN_OR_RETURN(local, ConnectIpc(reached[1], options));
  }
  if (!reached[0].empty() || local == nullptr) {
    PSGD_ASSIGN_OR_RETURN(remote, ConnectZmq(reached[0], options));
  }
  return std::make_unique<AutoConnector>(std::move(local), std::move(remote), std::move(peers[1]),
                                         std::move(peers[0]));
}

}  // namespace psgd
