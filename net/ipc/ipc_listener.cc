// The listening side: one Unix socket, and the memory that each peer shares.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/open_files.h"
#include "net/address.h"
#include "net/epoll.h"
#include "net/ipc/handshake.h"
#include "net/ipc/ipc_endpoint.h"
#include "net/transport_security.h"

namespace psgd {
namespace {

constexpr uint64_t kListenKey = UINT64_MAX - 2;
constexpr Duration kNoDescriptorPause = std::chrono::milliseconds(1);
constexpr uint64_t kMostArena = uint64_t{1} << 34;  // of a peer that speaks as it must

class IpcListener : public IpcEndpoint {
 public:
  IpcListener(const TransportOptions& options, Bell bell, FileDescriptor epoll, Address address,
              FileDescriptor socket)
      : IpcEndpoint(options, std::move(bell), std::move(epoll)), socket_(std::move(socket)) {
    address_ = address.ToString();
    Watch(socket_, kListenKey);
  }

  absl::Status Send(PeerId to, const Message& message) override {
    LookAtSockets();
    const auto peer = peers_.find(to);
    if (peer == peers_.end() || peer->second.lost || !peer->second.shared) return Gone(to);
    return SendTo(peer->second, message);
  }

  EndpointStats stats() const override {
    EndpointStats stats = EndpointBase::stats();
    stats.strangers = strangers_;
    stats.over_budget = over_budget_;
    if (!turned_away_.empty()) stats.last_turned_away = turned_away_;
    return stats;
  }

 protected:
  Link* LinkAt(size_t number) override { return number < links_.size() ? links_[number] : nullptr; }

  void Drop(Link& link) override {
    links_[link.number] = nullptr;
    unused_.push_back(link.number);
    peers_.erase(link.peer);
  }

  void OnSocket(uint64_t key, bool gone) override {
    if (key == kListenKey) return Accept();
    const auto peer = peers_.find(key);
    if (peer == peers_.end()) return;
    Link& link = peer->second;
    // A peer that was quick has left its greeting, and messages.
    if (!link.shared && !Meet(&link)) {
      if (gone || link.lost) Drop(link);
      return;
    }
    if (!gone) return Drain(link);
    link.socket = FileDescriptor();
    Lose(link);
  }

  Time Maintain(Time now) override { return now + std::chrono::hours(1); }

 private:
  void Accept() {
    while (true) {
      FileDescriptor socket(
          ::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.open()) {
        // The socket stays readable until a descriptor is free.
        if (errno == EMFILE || errno == ENFILE) {
          SayFull();
          std::this_thread::sleep_for(kNoDescriptorPause);
        }
        return;
      }
      if (peers_.size() >= std::min(options_.peers, Bell::kMostLinks)) {
        ++over_budget_;
        turned_away_ = absl::StrCat("a connection beyond the limit of ", peers_.size());
        continue;
      }
      if (!IsOwnUser(socket.get())) {
        ++strangers_;
        turned_away_ = "a process of another user";
        continue;
      }
      const PeerId id = next_++;
      Watch(socket, id);
      Link& link = peers_[id];
      link.peer = id;
      link.number = TakeNumber(&link);
      link.socket = std::move(socket);
    }
  }

  size_t TakeNumber(Link* link) {
    if (unused_.empty()) {
      unused_.push_back(links_.size());
      links_.push_back(nullptr);
      MakeRoom(links_.size());
    }
    const size_t number = unused_.back();
    unused_.pop_back();
    links_[number] = link;
    return number;
  }

  void SayFull() {
    if (std::exchange(said_full_, true)) return;
    options_.log->warn("shared memory: no further peer can connect: {}", OpenFilesText());
  }

  // Takes the greeting. False: it is not here yet, or the peer is refused, which makes it lost.
  bool Meet(Link* link) {
    absl::StatusOr<IpcHello> hello = ReceiveHello(link->socket.get());
    if (absl::IsNotFound(hello.status())) return false;
    const absl::Status met = hello.ok() ? Join(*std::move(hello), link) : hello.status();
    link->lost = !met.ok();
    if (absl::IsResourceExhausted(met)) {
      SayFull();
    } else if (!met.ok() && !absl::IsUnavailable(met)) {
      CountMalformed(met.message());
    }
    return met.ok();
  }

  absl::Status Join(IpcHello hello, Link* link) {
    const auto& security = options_.security;
    if (security && security->allowed && !security->allowed->Knows(hello.pass)) {
      ++strangers_;
      turned_away_ = "a process that is no member of the run";
      return absl::UnavailableError(turned_away_);
    }
    if (hello.arena_bytes > kMostArena) {
      return absl::InvalidArgumentError("a greeting with too much memory");
    }
    PSGD_ASSIGN_OR_RETURN(
        SharedMemory memory,
        SharedMemory::Map(std::move(hello.link), SharedLink::BytesFor(hello.arena_bytes)));
    PSGD_ASSIGN_OR_RETURN(Bell bell,
                          Bell::Map(std::move(hello.bell_memory), std::move(hello.bell_event)));
    // A peer that is gone already may have left messages.
    SendWelcome(link->socket.get(), link->number, bell_).IgnoreError();
    link->shared.emplace(std::move(memory), hello.arena_bytes, SharedLink::Side::kListener);
    link->bell.emplace(std::move(bell));
    link->number_there = hello.number;
    LookAt(*link);  // a quick peer has left messages without a mark
    link->pass = std::move(hello.pass);
    return absl::OkStatus();
  }

  // Nothing is said on the socket after the greeting.
  static void Drain(const Link& link) {
    char bytes[4096];
    while (::recv(link.socket.get(), bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
    }
  }

  const FileDescriptor socket_;
  std::map<PeerId, Link> peers_;
  PeerId next_ = 0;
  std::vector<Link*> links_;    // of peers_, by number; null: the number is free
  std::vector<size_t> unused_;  // numbers that are free
  uint64_t strangers_ = 0, over_budget_ = 0;
  std::string turned_away_;
  bool said_full_ = false;
};

}  // namespace

StatusOrEndpoint ListenIpc(const std::string& address, const TransportOptions& options) {
  PSGD_ASSIGN_OR_RETURN(const Address parsed, ParseIpcAddress(address));
  PSGD_ASSIGN_OR_RETURN(Bell bell, Bell::Create());
  PSGD_ASSIGN_OR_RETURN(FileDescriptor epoll, MakeEpoll());
  PSGD_ASSIGN_OR_RETURN(FileDescriptor socket, ListenUnix(parsed));
  return std::make_unique<IpcListener>(options, std::move(bell), std::move(epoll), parsed,
                                       std::move(socket));
}

}  // namespace psgd
