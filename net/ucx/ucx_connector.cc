// The connecting side: messages wait until the listener is met. A lost listener is looked for
// again; what it had not received is lost.
#include <algorithm>
#include <utility>

#include "net/epoll.h"
#include "net/ucx/ucx_endpoint.h"

namespace psgd {
namespace {

constexpr Duration kFirstRetry = std::chrono::milliseconds(50);
constexpr Duration kLongestRetry = std::chrono::seconds(2);
// An attempt that takes longer is given up.
constexpr Duration kAttempt = std::chrono::seconds(5);

class UcxConnector : public UcxEndpoint {
 public:
  UcxConnector(const TransportOptions& options, std::unique_ptr<UcxWorker> worker,
               FileDescriptor epoll, std::vector<Address> addresses)
      : UcxEndpoint(options, std::move(worker), std::move(epoll)) {
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
    const absl::Status sent = SendTo(peers_[to], message);
    // A broken connection loses messages silently.
    return absl::IsUnavailable(sent) ? absl::OkStatus() : sent;
  }

 protected:
  void OnMet(const PeerPtr& peer) override { targets_[peer->id].met = SteadyNow(); }

  void OnConnected(const PeerPtr& peer) override {
    WatchSocket(peer->control.get(), peer->number());
    Greet(peer);
  }

  void OnLost(const PeerPtr& peer) override {
    peer->left = false;
    Target& target = targets_[peer->id];
    const Time now = SteadyNow();
    if (target.met != Time{} && now - target.met > kLongestRetry) target.wait = kFirstRetry;
    target.met = {};
    target.due = now + target.wait;
    target.wait = std::min(2 * target.wait, kLongestRetry);
  }

  Time Maintain(Time now) override {
    Time next = now + std::chrono::hours(1);
    for (const auto& [id, peer] : peers_) {
      if (peer->met) continue;
      if (targets_[id].due <= now) {
        Close(peer);
        Connect(peer, now);
      }
      next = std::min(next, targets_[id].due);
    }
    return next;
  }

 private:
  struct Target {
    Address address;
    Time due{};  // for the next attempt, unless it is met
    Time met{};  // unset: it is not
    Duration wait = kFirstRetry;
  };

  void Connect(const PeerPtr& peer, Time now) {
    Target& target = targets_[peer->id];
    target.due = now + target.wait;
    absl::StatusOr<FileDescriptor> control = ConnectForGreeting(target.address);
    if (!control.ok()) {
      target.wait = std::min(2 * target.wait, kLongestRetry);
      return;
    }
    ++peer->attempt;
    peer->control = *std::move(control);
    WatchSocket(peer->control.get(), peer->number(), /*made=*/true);
    target.due = now + kAttempt;
  }

  std::vector<Target> targets_;  // by index of the address
};

}  // namespace

StatusOrEndpoint ConnectUcx(const std::vector<std::string>& addresses,
                            const TransportOptions& options) {
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
                                        std::move(parsed));
}

}  // namespace psgd
