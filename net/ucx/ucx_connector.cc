// The connecting side: messages wait until the listener is met and answers a probe. A lost listener
// is looked for again; what it had not received is lost.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/epoll.h"
#include "net/resolve.h"
#include "net/ucx/ucx_endpoint.h"

namespace psgd {
namespace {

constexpr Duration kFirstRetry = std::chrono::milliseconds(50);
constexpr Duration kLongestRetry = std::chrono::seconds(2);
// An attempt to connect, or a probe, that takes longer is given up.
constexpr Duration kAttempt = std::chrono::seconds(5);
// A listener that never answered a probe for so long is told as unreached.
constexpr Duration kPatience = std::chrono::seconds(5);
constexpr Duration kLookupPoll = std::chrono::milliseconds(10);

class UcxConnector : public UcxEndpoint {
 public:
  UcxConnector(const TransportOptions& options, std::unique_ptr<UcxWorker> worker,
               FileDescriptor epoll, std::vector<Address> addresses, OnUnreached on_unreached)
      : UcxEndpoint(options, std::move(worker), std::move(epoll)),
        on_unreached_(std::move(on_unreached)),
        patient_until_(SteadyNow() + kPatience) {
    for (Address& address : addresses) {
      auto peer = std::make_shared<Peer>();
      peer->id = targets_.size();
      targets_.push_back({.address = std::move(address)});
      peers_[peer->id] = std::move(peer);
    }
    Inside inside(*this);
    Maintain(SteadyNow());
  }

  ~UcxConnector() override { End(); }

  absl::Status Send(PeerId to, const Message& message) override {
    if (to >= targets_.size()) return NotConnected(to);
    Inside inside(*this);
    if (targets_[to].state == State::kGivenUp) return absl::OkStatus();
    const absl::Status sent = SendTo(peers_[to], message);
    // A broken connection loses messages silently.
    return absl::IsUnavailable(sent) ? absl::OkStatus() : sent;
  }

 protected:
  void OnMet(const PeerPtr& peer) override {
    Target& target = targets_[peer->id];
    target.due = SteadyNow() + kAttempt;
    target.device = DeviceOf(*peer);
    Probe(peer);
  }

  void OnAnswered(const PeerPtr& peer) override {
    Target& target = targets_[peer->id];
    target.state = State::kAnswered;
    target.answered = SteadyNow();
    Open(peer);
  }

  void OnConnected(const PeerPtr& peer) override {
    WatchSocket(peer->control.get(), peer->number());
    Greet(peer);
  }

  void OnLost(const PeerPtr& peer) override {
    peer->left = false;
    Target& target = targets_[peer->id];
    const Time now = SteadyNow();
    if (target.answered != Time{} && now - target.answered > kLongestRetry) {
      target.wait = kFirstRetry;
    }
    target.answered = {};
    target.due = now + target.wait;
    target.wait = std::min(2 * target.wait, kLongestRetry);
  }

  Time Maintain(Time now) override {
    Time next = now + std::chrono::hours(1);
    for (const auto& [id, peer] : peers_) {
      Target& target = targets_[id];
      if (target.state == State::kNew && now >= patient_until_) TellUnreached(peer);
      if (peer->open || target.state == State::kGivenUp) continue;
      if (target.due <= now) {
        Close(peer);
        Connect(peer, now);
      }
      next = std::min(next, target.due);
      if (target.state == State::kNew) next = std::min(next, patient_until_);
    }
    return next;
  }

 private:
  enum class State {
    kNew,        // no answer came yet
    kAnswered,   // once at least
    kUnreached,  // and that was told
    kGivenUp,    // and nothing is sent there any more
  };
  struct Target {
    Address address;
    std::optional<Lookup> lookup;
    std::string device;  // of UCX, by which it was to be reached; empty: it was never met
    State state = State::kNew;
    Time due{};       // for the next attempt, unless it is open
    Time answered{};  // unset: it is not open
    Duration wait = kFirstRetry;
  };

  void Connect(const PeerPtr& peer, Time now) {
    Target& target = targets_[peer->id];
    // The lock is held, so other peers would wait for a slow name server.
    if (!target.lookup) target.lookup.emplace(target.address);
    const auto found = target.lookup->Take();
    if (!found) {
      target.due = now + kLookupPoll;
      return;
    }
    target.lookup.reset();
    target.due = now + target.wait;
    absl::StatusOr<FileDescriptor> control =
        found->ok() ? ConnectForGreeting((*found)->front()) : found->status();
    if (!control.ok()) {
      target.wait = std::min(2 * target.wait, kLongestRetry);
      return;
    }
    ++peer->attempt;
    peer->control = *std::move(control);
    WatchSocket(peer->control.get(), peer->number(), /*made=*/true);
    target.due = now + kAttempt;
  }

  void TellUnreached(const PeerPtr& peer) {
    Target& target = targets_[peer->id];
    const std::string why = absl::StrCat(
        "UCX gets no answer from ", target.address.ToString(),
        target.device.empty() ? " (is that port open in the firewall?)"
                              : absl::StrCat(" over ", target.device,
                                             " (is it of another network, or behind a firewall? "
                                             "UCX_NET_DEVICES names devices to use)"));
    if (on_unreached_ == nullptr) {
      target.state = State::kUnreached;
      options_.log->warn("{}, and goes on trying; cluster.transport: zmq does without UCX", why);
      return;
    }
    target.state = State::kGivenUp;
    Close(peer);
    peer->waiting.clear();
    peer->waiting_bytes = 0;
    on_unreached_(peer->id, why);
  }

  const OnUnreached on_unreached_;
  const Time patient_until_;
  std::vector<Target> targets_;  // by index of the address
};

}  // namespace

StatusOrEndpoint ConnectUcx(const std::vector<std::string>& addresses,
                            const TransportOptions& options) {
  return ConnectUcxOrGiveUp(addresses, options, nullptr);
}

StatusOrEndpoint ConnectUcxOrGiveUp(const std::vector<std::string>& addresses,
                                    const TransportOptions& options, OnUnreached on_unreached) {
  std::vector<Address> parsed;
  for (const std::string& text : addresses) {
    PSGD_ASSIGN_OR_RETURN(Address address, ParseTcpAddress(text));
    if (address.port == 0) {
      return InvalidArgumentError("cannot connect to ", text, ": port 0 is for listening only");
    }
    parsed.push_back(std::move(address));
  }
  PSGD_ASSIGN_OR_RETURN(std::unique_ptr<UcxWorker> worker, UcxWorker::Create(ReachTo(parsed)));
  PSGD_ASSIGN_OR_RETURN(FileDescriptor epoll, MakeEpoll());
  return std::make_unique<UcxConnector>(options, std::move(worker), std::move(epoll),
                                        std::move(parsed), std::move(on_unreached));
}

}  // namespace psgd
