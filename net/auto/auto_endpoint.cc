#include "net/auto/auto_endpoint.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/address.h"
#include "net/auto/auto_address.h"
#include "net/auto/fast_network.h"
#include "net/auto/machine_id.h"
#include "net/ipc/handshake.h"
#include "net/ipc/ipc_endpoint.h"
#include "net/joinable_endpoint.h"
#include "net/spin.h"
#include "net/ucx/greeting.h"
#include "net/ucx/ucx_endpoint.h"
#include "net/zmq/zmq_connector.h"

namespace psgd {
namespace {

enum Way : size_t { kZmq, kIpc, kUcx };
constexpr size_t kWays = 3;
using Endpoints = std::array<std::unique_ptr<Endpoint>, kWays>;  // by way; null: not that way

// A connection that is to be made again asks for a look now and then.
constexpr Duration kConnectorLooks = std::chrono::milliseconds(50);
// ZeroMQ's part could not be made, as without files; then it is tried again.
constexpr Duration kReplacePause = std::chrono::seconds(1);
// A listener looks after peers that connected and say nothing.
constexpr Duration kListenerLooks = std::chrono::milliseconds(500);

// Waits at the ZeroMQ endpoint, which the descriptors of the others interrupt.
class AutoEndpoint : public Endpoint {
 public:
  // REQUIRES: the ZeroMQ endpoint, or shared memory alone. `longest_wait`: of the others for a
  // look.
  AutoEndpoint(Endpoints endpoints, std::string address, Duration longest_wait)
      : endpoints_(std::move(endpoints)),
        longest_wait_(longest_wait),
        zmq_(static_cast<ZmqEndpoint*>(endpoints_[kZmq].get())),
        address_(std::move(address)) {
    for (const Way way : {kIpc, kUcx}) {
      if (endpoints_[way] == nullptr) continue;
      joined_.push_back({way, static_cast<JoinableEndpoint*>(endpoints_[way].get())});
      if (zmq_ != nullptr) zmq_->AlsoEndOn(joined_.back().endpoint->fd());
    }
  }

  absl::Status Send(PeerId to, const Message& message) override {
    const Place place = PlaceOf(to);
    Endpoint* const endpoint = endpoints_[place.way].get();
    if (place.way != kZmq) moved_ = SteadyNow();  // an answer may follow
    // What the endpoint says of an unknown peer is right here, too.
    return endpoint == nullptr ? UnavailableError("peer ", to, " is gone")
                               : endpoint->Send(place.peer, message);
  }

  std::optional<Received> Receive(Duration timeout) override {
    if (zmq_ == nullptr) return From(joined_[0].way, joined_[0].endpoint->Receive(timeout));
    if (joined_.empty()) return From(kZmq, zmq_->Receive(timeout));
    const Time deadline = SteadyNow() + std::min<Duration>(timeout, std::chrono::hours(24));
    while (true) {
      LookAfterPeers();
      // A look at ZeroMQ takes as long as a message of the others, so it is not worth one for each;
      // but no busy peers may starve those of another way.
      const bool zmq_first = ++turn_ % kZmqTurn == 0;
      ++next_;
      for (size_t i = 0; !zmq_first && i < joined_.size(); ++i) {
        const auto& [way, endpoint] = joined_[(next_ + i) % joined_.size()];
        if (auto received = endpoint->Receive(Duration::zero())) {
          moved_ = SteadyNow();
          return From(way, std::move(received));
        }
      }
      const Duration left = std::max(deadline - SteadyNow(), Duration::zero());
      const bool waits = !zmq_first && left > Duration::zero();
      if (waits && (spin_.Until(moved_, [&] { return HasWork(); }) || !BeginWait())) continue;
      auto received = zmq_->Receive(waits ? std::min(left, longest_wait_) : Duration::zero());
      if (waits) EndWait(joined_.size());
      if (received) {
        turn_ = kZmqTurn - 2;  // more may be there: after one look at the others it is next
        return From(kZmq, std::move(received));
      }
      // Wake is the ZeroMQ endpoint's. A refused message ends a Receive, too: the caller comes
      // again.
      if (zmq_->TakeWoken()) return std::nullopt;
      if (!zmq_first && left == Duration::zero()) return std::nullopt;
    }
  }

  void Wake() override {
    if (zmq_ != nullptr) return zmq_->Wake();
    joined_[0].endpoint->Wake();
  }

  const std::string& address() const override { return address_; }

  EndpointStats stats() const override {
    EndpointStats sum;
    for (const auto& endpoint : endpoints_) {
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
  struct Place {
    Way way = kZmq;
    PeerId peer = 0;  // of that endpoint
  };
  virtual Place PlaceOf(PeerId peer) const = 0;
  virtual PeerId PeerAt(Place place) const = 0;
  virtual void LookAfterPeers() {}
  ZmqEndpoint* zmq() const { return zmq_; }

 private:
  struct Joined {
    Way way;
    JoinableEndpoint* endpoint;
  };
  static constexpr uint64_t kZmqTurn = 16;  // of the looks, one is at ZeroMQ first

  std::optional<Received> From(Way way, std::optional<Received> received) const {
    if (received) received->from = PeerAt({way, received->from});
    return received;
  }
  bool HasWork() const {
    return std::ranges::any_of(joined_, [](const Joined& one) { return one.endpoint->HasWork(); });
  }
  // False: something has come, and no wait began.
  bool BeginWait() {
    for (size_t i = 0; i < joined_.size(); ++i) {
      if (joined_[i].endpoint->BeginWait()) continue;
      EndWait(i);
      return false;
    }
    return true;
  }
  // Ends the wait of the first `count` endpoints.
  void EndWait(size_t count) {
    for (size_t i = 0; i < count; ++i) joined_[i].endpoint->EndWait();
  }

  const Endpoints endpoints_;
  const Duration longest_wait_;
  ZmqEndpoint* const zmq_;  // of them; null: there is none
  const std::string address_;
  std::vector<Joined> joined_;  // the others
  Spin spin_;
  Time moved_{};       // when the last message of one of them came or left
  uint64_t turn_ = 0;  // ZeroMQ's
  uint64_t next_ = 0;  // of the others, the first to be asked
};

class AutoListener : public AutoEndpoint {
 public:
  AutoListener(Endpoints endpoints, std::string address)
      : AutoEndpoint(std::move(endpoints), std::move(address), kListenerLooks) {}

 protected:
  Place PlaceOf(PeerId peer) const override {
    return {static_cast<Way>(peer % kWays), peer / kWays};
  }
  PeerId PeerAt(Place place) const override { return kWays * place.peer + place.way; }
};

// What UCX's endpoint finds out about its peers. Thread-safe.
class UcxNews {
 public:
  struct Outcome {
    PeerId ucx = 0;  // of UCX's endpoint
    absl::Status status;
  };
  void Add(Outcome outcome) {
    const std::lock_guard lock(mutex_);
    outcomes_.push_back(std::move(outcome));
    any_ = true;
  }
  std::vector<Outcome> Take() {
    if (!any_.load(std::memory_order_relaxed)) return {};
    const std::lock_guard lock(mutex_);
    any_ = false;
    return std::exchange(outcomes_, {});
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> any_{false};
  std::vector<Outcome> outcomes_;
};

// The hosts that UCX gave up, so that no later connection waits for them. Thread-safe.
class HostsWithoutUcx {
 public:
  void Add(const std::string& tcp, std::string why) {
    const std::lock_guard lock(mutex_);
    hosts_.emplace(HostOf(tcp), std::move(why));
  }
  // Why; empty: UCX did not give it up.
  std::string Why(const std::string& tcp) const {
    const std::lock_guard lock(mutex_);
    const auto found = hosts_.find(HostOf(tcp));
    return found == hosts_.end() ? "" : found->second;
  }

 private:
  static std::string HostOf(const std::string& tcp) { return ParseTcpAddress(tcp)->host; }

  mutable std::mutex mutex_;
  std::map<std::string, std::string> hosts_;
};

class AutoConnector : public AutoEndpoint {
 public:
  // The indices of the addresses that each endpoint reaches, in its order.
  using Peers = std::array<std::vector<PeerId>, kWays>;
  // What takes over where UCX reaches nobody.
  struct InsteadOfUcx {
    std::vector<std::string> tcp;  // ZeroMQ's addresses, in UCX's order
    std::shared_ptr<UcxNews> news = std::make_shared<UcxNews>();
    std::shared_ptr<HostsWithoutUcx> hosts;
    std::string why;    // an address takes ZeroMQ that has UCX; empty: none does
    size_t shards = 0;  // that take ZeroMQ since UCX gives no answer
  };

  AutoConnector(Endpoints endpoints, Peers peers, InsteadOfUcx instead, Log log)
      : AutoEndpoint(std::move(endpoints), "", kConnectorLooks),
        log_(std::move(log)),
        peers_(std::move(peers)),
        instead_(std::move(instead)) {
    for (const auto& list : peers_) places_.resize(places_.size() + list.size());
    for (const Way way : {kZmq, kIpc, kUcx}) {
      for (PeerId i = 0; i < peers_[way].size(); ++i) places_[peers_[way][i]] = {way, i};
    }
    for (PeerId i = 0; i < peers_[kUcx].size(); ++i) asked_.insert(i);
  }

  absl::Status Send(PeerId to, const Message& message) override {
    if (to >= places_.size()) return InvalidArgumentError("no address ", to, " was connected");
    LookAfterPeers();
    return AutoEndpoint::Send(to, message);
  }

  EndpointStats stats() const override {
    EndpointStats stats = AutoEndpoint::stats();
    stats.detour = Detour();
    return stats;
  }

 protected:
  Place PlaceOf(PeerId peer) const override { return places_[peer]; }
  PeerId PeerAt(Place place) const override { return peers_[place.way][place.peer]; }

  void LookAfterPeers() override {
    const std::vector<UcxNews::Outcome> news = instead_.news->Take();
    for (const auto& [ucx, status] : news) {
      const bool first = asked_.erase(ucx) > 0;
      if (status.ok()) {
        ++reached_;
        continue;
      }
      if (!first) --reached_;
      instead_.hosts->Add(instead_.tcp[ucx], std::string(status.message()));
      if (instead_.why.empty()) instead_.why = std::string(status.message());
      unreached_.push_back(ucx);
    }
    if (!news.empty() && asked_.empty()) {
      log_->info("UCX reaches {} of {} shards", reached_, places_.size());
    }
    if (!unreached_.empty()) ReplaceUcx();
  }

 private:
  // ZeroMQ takes over from UCX where no answer comes. What was sent there is lost, as when a
  // connection breaks.
  void ReplaceUcx() {
    const Time now = SteadyNow();
    if (now < replace_again_) return;
    while (!unreached_.empty()) {
      const PeerId ucx = unreached_.front();
      const absl::Status connected =
          static_cast<ZmqConnector*>(zmq())->Connect({instead_.tcp[ucx]});
      if (!connected.ok()) {
        if (replace_again_ == Time{}) {
          log_->error("{}; this is tried again", std::string(connected.message()));
        }
        replace_again_ = now + kReplacePause;
        return;
      }
      unreached_.pop_front();
      const PeerId peer = peers_[kUcx][ucx];
      places_[peer] = {kZmq, peers_[kZmq].size()};
      peers_[kZmq].push_back(peer);
      ++instead_.shards;
    }
    replace_again_ = {};
    log_->warn("{}", Detour());
  }

  std::string Detour() const {
    if (instead_.shards == 0) return instead_.why;
    return absl::StrCat(
        instead_.why, "; data of ", instead_.shards,
        instead_.shards == 1 ? " shard go" : " shards go",
        " over ZeroMQ and TCP instead; cluster.transport: zmq does so from the beginning");
  }

  const Log log_;
  Peers peers_;
  InsteadOfUcx instead_;
  std::vector<Place> places_;     // by index of the address
  std::set<PeerId> asked_;        // of UCX's, those whose outcome is not known
  size_t reached_ = 0;            // of UCX's
  std::deque<PeerId> unreached_;  // of UCX's, those that ZeroMQ does not reach yet
  Time replace_again_{};          // unset: the latest attempt succeeded
};

// Whether the listener is on this machine and lets itself be reached.
bool IsHere(const AutoAddress& address, const std::string& this_machine) {
  if (address.ipc.empty() || address.machine != this_machine) return false;
  const auto path = ParseAddress(address.ipc);
  if (!path.ok()) return false;
  const absl::StatusOr<FileDescriptor> socket = ConnectUnix(*path);
  return socket.ok() && IsOwnUser(socket->get());
}

// UCX does not encrypt.
bool HasUcx(const TransportOptions& options) {
  return options.security == nullptr && options.fast_network.value_or(HasFastNetwork());
}

// Other machines do not reach a listener at a loopback address.
bool ListensToUcx(const Address& address, const TransportOptions& options) {
  return HasUcx(options) && (options.fast_network.has_value() || !IsLoopback(address.host));
}

std::string SayWhyNotUcx(const absl::Status& why, const TransportOptions& options) {
  const std::string text = absl::StrCat(
      "this machine has InfiniBand or RoCE, but data go over TCP, because UCX does not start: ",
      why.message());
  static std::once_flag said;  // of each listener and connection it would be the same
  std::call_once(said, [&] { options.log->warn("{}", text); });
  return text;
}

StatusOrEndpoint ListenAuto(const std::string& address, const TransportOptions& options) {
  PSGD_ASSIGN_OR_RETURN(AutoAddress parsed, ParseAutoAddress(address));
  Endpoints endpoints;
  auto zmq = ListenZmq(parsed.tcp, options);
  if (!zmq.ok()) return Annotate(zmq.status(), absl::StrCat("cannot listen at ", address));
  endpoints[kZmq] = *std::move(zmq);
  parsed.tcp = endpoints[kZmq]->address();
  PSGD_ASSIGN_OR_RETURN(Address ucx_address, ParseTcpAddress(parsed.tcp));
  ucx_address.port = std::exchange(parsed.ucx, 0);
  if (ListensToUcx(ucx_address, options)) {
    auto ucx = ListenUcx(ucx_address.ToString(), options);
    if (ucx.ok()) {
      endpoints[kUcx] = *std::move(ucx);
      parsed.ucx = ParseTcpAddress(endpoints[kUcx]->address())->port;
    } else {
      SayWhyNotUcx(ucx.status(), options);
    }
  }
  if (!parsed.ipc.empty()) {
    PSGD_ASSIGN_OR_RETURN(endpoints[kIpc], ListenIpc(parsed.ipc, options));
    parsed.machine = MachineId();
  }
  return std::make_unique<AutoListener>(std::move(endpoints), parsed.ToString());
}

StatusOrEndpoint ConnectAuto(const std::vector<std::string>& addresses,
                             const TransportOptions& options,
                             const std::shared_ptr<HostsWithoutUcx>& hosts) {
  const std::string this_machine = MachineId();
  const bool has_ucx = HasUcx(options);
  AutoConnector::Peers peers;
  std::array<std::vector<std::string>, kWays> reached;
  AutoConnector::InsteadOfUcx instead;
  instead.hosts = hosts;
  for (const std::string& text : addresses) {
    PSGD_ASSIGN_OR_RETURN(const AutoAddress address, ParseAutoAddress(text));
    const bool may_ucx = has_ucx && address.ucx != 0;
    const std::string why_not = may_ucx ? hosts->Why(address.tcp) : "";
    const Way way = IsHere(address, this_machine) ? kIpc : may_ucx && why_not.empty() ? kUcx : kZmq;
    if (way == kZmq && !why_not.empty()) {
      instead.why = why_not;
      ++instead.shards;
    }
    const PeerId peer = peers[kZmq].size() + peers[kIpc].size() + peers[kUcx].size();
    peers[way].push_back(peer);
    reached[way].push_back(way == kIpc   ? address.ipc
                           : way == kUcx ? address.UcxAddress()
                                         : address.tcp);
    if (way == kUcx) instead.tcp.push_back(address.tcp);
  }
  Endpoints endpoints;
  if (!reached[kUcx].empty()) {
    auto ucx = ConnectUcxOrGiveUp(reached[kUcx], options,
                                  [news = instead.news](PeerId peer, const absl::Status& outcome) {
                                    news->Add({peer, outcome});
                                  });
    if (ucx.ok()) {
      endpoints[kUcx] = *std::move(ucx);
    } else {
      instead.why = SayWhyNotUcx(ucx.status(), options);
      std::ranges::move(std::exchange(peers[kUcx], {}), std::back_inserter(peers[kZmq]));
      std::ranges::move(instead.tcp, std::back_inserter(reached[kZmq]));
    }
  }
  if (!reached[kIpc].empty()) {
    PSGD_ASSIGN_OR_RETURN(endpoints[kIpc], ConnectIpc(reached[kIpc], options));
  }
  // ZeroMQ's endpoint may have to take over from UCX, so it waits for both.
  if (!reached[kZmq].empty() || endpoints[kUcx] != nullptr || endpoints[kIpc] == nullptr) {
    PSGD_ASSIGN_OR_RETURN(endpoints[kZmq], ConnectZmq(reached[kZmq], options));
  }
  return std::make_unique<AutoConnector>(std::move(endpoints), std::move(peers), std::move(instead),
                                         options.log);
}

class AutoTransport : public Transport {
 public:
  explicit AutoTransport(const TransportOptions& options) : options_(options) {}

  StatusOrEndpoint Listen(const std::string& address) override {
    return ListenAuto(address, options_);
  }
  StatusOrEndpoint Connect(const std::vector<std::string>& addresses) override {
    return ConnectAuto(addresses, options_, hosts_without_ucx_);
  }

 private:
  const TransportOptions options_;
  const std::shared_ptr<HostsWithoutUcx> hosts_without_ucx_ = std::make_shared<HostsWithoutUcx>();
};

}  // namespace

std::unique_ptr<Transport> MakeAutoTransport(const TransportOptions& options) {
  return std::make_unique<AutoTransport>(options);
}

}  // namespace psgd
