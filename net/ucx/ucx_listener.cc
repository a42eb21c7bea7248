// The listening side: each connection is a peer.
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "common/open_files.h"
#include "net/epoll.h"
#include "net/ucx/ucx_endpoint.h"

namespace psgd {
namespace {

// A connection that does not say hello for so long is closed.
constexpr Duration kMostSilence = std::chrono::seconds(10);
// Workers of a large run that connect at once, and more.
constexpr size_t kMostSilent = 4096;
constexpr Duration kPauseWithoutFiles = std::chrono::milliseconds(100);

class UcxListener : public UcxEndpoint {
 public:
  UcxListener(const TransportOptions& options, std::unique_ptr<UcxWorker> worker,
              FileDescriptor epoll, FileDescriptor socket, std::string address)
      : UcxEndpoint(options, std::move(worker), std::move(epoll)), socket_(std::move(socket)) {
    address_ = std::move(address);
    WatchSocket(socket_.get(), kOwnKey);
  }

  ~UcxListener() override {
    {
      Inside inside(*this);
      socket_ = FileDescriptor();
    }
    End();
  }

  absl::Status Send(PeerId to, const Message& message) override {
    Inside inside(*this);
    const auto found = peers_.find(to);
    if (found == peers_.end() || !found->second->met || found->second->left) return Gone(to);
    return SendTo(PeerPtr(found->second), message);
  }

  EndpointStats stats() const override {
    EndpointStats stats = UcxEndpoint::stats();
    stats.over_budget = turned_away_;
    if (turned_away_ > 0) stats.last_turned_away = "more peers than this listener serves";
    return stats;
  }

 protected:
  // Whoever connects probes the way.
  void OnMet(const PeerPtr& peer) override {
    Greet(peer);
    if (peer->met) Open(peer);
  }
  void OnLost(const PeerPtr& peer) override { peers_.erase(PeerId(peer->id)); }
  bool IsAwaited() const override { return !peers_.empty(); }

  void OnOwnSocket() override {
    while (socket_.open()) {
      FileDescriptor control(
          ::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!control.open()) {
        if (errno != EMFILE && errno != ENFILE) return;
        if (!std::exchange(said_full_, true)) {
          options_.log->warn("UCX: no further peer can connect: {}", OpenFilesText());
        }
        // The socket would be readable all the time.
        StopWatching(socket_.get(), kOwnKey);
        watch_again_ = SteadyNow() + kPauseWithoutFiles;
        return;
      }
      if (silent_.size() >= kMostSilent) {
        std::erase_if(silent_, [](const auto& entry) {
          return entry.first->met || !entry.first->control.open();
        });
      }
      if (peers_.size() >= options_.peers || silent_.size() >= kMostSilent) {
        ++turned_away_;
        continue;
      }
      auto peer = std::make_shared<Peer>();
      peer->id = next_++;
      peer->control = std::move(control);
      WatchSocket(peer->control.get(), peer->number());
      silent_.emplace_back(peer, SteadyNow() + kMostSilence);
      peers_[peer->id] = std::move(peer);
    }
  }

  Time Maintain(Time now) override {
    Time next = now + std::chrono::hours(1);
    if (!socket_.open()) watch_again_ = {};
    if (watch_again_ != Time{} && now >= watch_again_) {
      watch_again_ = {};
      WatchSocket(socket_.get(), kOwnKey);
    }
    if (watch_again_ != Time{}) next = watch_again_;
    while (!silent_.empty()) {
      const auto& [peer, until] = silent_.front();
      if (!peer->met && peer->control.open()) {
        if (until > now) return std::min(next, until);
        Lose(peer);
      }
      silent_.pop_front();
    }
    return next;
  }

 private:
  FileDescriptor socket_;
  std::deque<std::pair<PeerPtr, Time>> silent_;  // until when they may be, in order
  Time watch_again_{};                           // unset: the socket is watched
  bool said_full_ = false;
  PeerId next_ = 0;
  std::atomic<uint64_t> turned_away_{0};
};

}  // namespace

StatusOrEndpoint ListenUcx(const std::string& address, const TransportOptions& options) {
  PSGD_ASSIGN_OR_RETURN(Address parsed, ParseTcpAddress(address));
  PSGD_ASSIGN_OR_RETURN(FileDescriptor socket, ListenForGreetings(parsed, &parsed.port));
  PSGD_ASSIGN_OR_RETURN(std::unique_ptr<UcxWorker> worker,
                        UcxWorker::Create(ReachTo({&parsed, 1})));
  PSGD_ASSIGN_OR_RETURN(FileDescriptor epoll, MakeEpoll());
  return std::make_unique<UcxListener>(options, std::move(worker), std::move(epoll),
                                       std::move(socket), parsed.ToString());
}

}  // namespace psgd
