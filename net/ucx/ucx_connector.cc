// The connecting side: messages wait until the listener is met and answers a probe. A lost listener
// is looked for again; what it had not received is lost.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/standstill.h"
#include "net/epoll.h"
#include "net/resolve.h"
#include "net/ucx/ucx_endpoint.h"

namespace psgd {
namespace {

constexpr Duration kFirstRetry = std::chrono::milliseconds(50);
constexpr Duration kLongestRetry = std::chrono::seconds(2);
// An attempt to connect that takes longer is given up.
constexpr Duration kAttempt = std::chrono::seconds(5);
// Patience runs only while somebody looks that often, since no answer is heard otherwise.
constexpr int kLooksPerPatience = 10;
constexpr Duration kLeastLook = std::chrono::milliseconds(100);
constexpr Duration kLookupPoll = std::chrono::milliseconds(10);

class UcxConnector : public UcxEndpoint {
 public:
  UcxConnector(const TransportOptions& options, std::unique_ptr<UcxWorker> worker,
               FileDescriptor epoll, std::vector<Address> addresses, OnOutcome on_outcome)
      : UcxEndpoint(options, std::move(worker), std::move(epoll)),
        on_outcome_(std::move(on_outcome)),
        look_(std::max<Duration>(options.patience / kLooksPerPatience, kLeastLook)),
        standstill_(look_),
        patient_until_(SteadyNow() + options.patience) {
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
    target.due = SteadyNow() + options_.patience;
    target.device = DeviceOf(*peer);
    peer->failure.clear();
    Probe(peer);
  }

  void OnAnswered(const PeerPtr& peer) override {
    Target& target = targets_[peer->id];
    const bool first = std::exchange(target.state, State::kAnswered) == State::kNew;
    target.answered = SteadyNow();
    --target.turn;  // the address that answers is the next one, too
    Open(peer);
    if (first && on_outcome_ != nullptr) on_outcome_(peer->id, absl::OkStatus());
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
    const Duration unheard = standstill_.Lost(now);
    patient_until_ += unheard;
    Time next = now + std::chrono::hours(1);
    for (const auto& [id, peer] : peers_) {
      Target& target = targets_[id];
      if (peer->open || target.state == State::kGivenUp) continue;
      if (peer->control.open()) target.due += unheard;
      const bool unanswered = peer->met && target.due <= now;
      if (target.state == State::kNew ? now >= patient_until_
                                      : target.state == State::kAnswered && unanswered) {
        TellUnreached(peer);
        if (target.state == State::kGivenUp) continue;
      }
      if (target.due <= now) {
        if (peer->control.open() && !peer->met) peer->failure = "it takes no connection";
        Close(peer);
        Connect(peer, now);
      }
      next = std::min(next, target.due);
      if (target.state == State::kNew || peer->met) next = std::min(next, now + look_ / 2);
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
    size_t turn = 0;     // of the name's addresses
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
      if (peer->failure.empty()) peer->failure = "its name is being looked up";
      target.due = now + kLookupPoll;
      return;
    }
    target.lookup.reset();
    target.due = now + target.wait;
    absl::StatusOr<FileDescriptor> control =
        found->ok() ? ConnectForGreeting((**found)[target.turn++ % (*found)->size()])
                    : found->status();
    if (!control.ok()) {
      peer->failure = std::string(control.status().message());
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
        target.device.empty()
            ? absl::StrCat(" (", peer->failure, peer->failure.empty() ? "" : "; ",
                           "is that port open in the firewall?)")
            : absl::StrCat(" over ", target.device,
                           " (is this device on another network, is a firewall between, or does an "
                           "older psgd listen there? UCX_NET_DEVICES names the devices to use)"));
    if (on_outcome_ == nullptr) {
      target.state = State::kUnreached;
      options_.log->warn("{}, and goes on trying; cluster.transport: zmq does without UCX", why);
      return;
    }
    target.state = State::kGivenUp;
    Close(peer);
    peer->waiting.clear();
    peer->waiting_bytes = 0;
    on_outcome_(peer->id, absl::UnavailableError(why));
  }

  const OnOutcome on_outcome_;
  const Duration look_;  // the longest time between two of them
  Standstill standstill_;
  Time patient_until_;           // with each listener that never answered
  std::vector<Target> targets_;  // by index of the address
};

}  // namespace

StatusOrEndpoint ConnectUcx(const std::vector<std::string>& addresses,
                            const TransportOptions& options) {
  return ConnectUcxOrGiveUp(addresses, options, nullptr);
}

StatusOrEndpoint ConnectUcxOrGiveUp(const std::vector<std::string>& addresses,
                                    const TransportOptions& options, OnOutcome on_outcome) {
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
                                        std::move(parsed), std::move(on_outcome));
}

}  // namespace psgd
