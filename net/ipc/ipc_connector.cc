// The connecting side. It makes the shared memory, so messages wait there for a peer that is not
// there yet. It tries again where a peer is gone; what that peer had not read is lost.
#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "net/address.h"
#include "net/epoll.h"
#include "net/ipc/handshake.h"
#include "net/ipc/ipc_endpoint.h"
#include "net/transport_security.h"

namespace psgd {
namespace {

constexpr Duration kRetry = std::chrono::milliseconds(50);

class IpcConnector : public IpcEndpoint {
 public:
  IpcConnector(const TransportOptions& options, Bell bell, FileDescriptor epoll,
               std::vector<Address> addresses)
      : IpcEndpoint(options, std::move(bell), std::move(epoll)),
        addresses_(std::move(addresses)),
        links_(addresses_.size()),
        tries_(addresses_.size()) {
    MakeRoom(links_.size());
    for (size_t i = 0; i < links_.size(); ++i) links_[i].peer = links_[i].number = i;
  }

  absl::Status Open() {
    for (Link& link : links_) PSGD_RETURN_IF_ERROR(MakeMemory(&link));
    Maintain(SteadyNow());
    return absl::OkStatus();
  }

  absl::Status Send(PeerId to, const Message& message) override {
    if (to >= links_.size()) return NotConnected(to);
    Link& link = links_[to];
    // What is sent before the listener is known is rung for once it is.
    LookAtSockets(/*now=*/link.socket.open() && !link.bell);
    if (!link.shared) PSGD_RETURN_IF_ERROR(MakeMemory(&link));
    if (!link.socket.open()) TryConnect(to, SteadyNow());
    return SendTo(link, message);
  }

 protected:
  Link* LinkAt(size_t number) override {
    return number < links_.size() ? &links_[number] : nullptr;
  }

  void Drop(Link& link) override {
    link.lost = false;
    link.shared.reset();
    link.socket = FileDescriptor();
    link.bell.reset();
  }

  void OnSocket(uint64_t key, bool gone) override {
    Link& link = links_[key];
    if (!link.socket.open()) return;
    if (!gone && !link.bell) {
      absl::StatusOr<IpcWelcome> welcome = ReceiveWelcome(link.socket.get());
      if (absl::IsNotFound(welcome.status())) return;
      if (welcome.ok()) {
        link.number_there = welcome->number;
        link.bell.emplace(std::move(welcome->bell));
        link.bell->Ring(link.number_there);  // for what was sent before
        return;
      }
    }
    // Kept until what the peer sent is read.
    link.socket = FileDescriptor();
    link.bell.reset();
    Lose(link);
  }

  Time Maintain(Time now) override {
    Time next = now + std::chrono::hours(1);
    for (size_t i = 0; i < links_.size(); ++i) {
      if (links_[i].socket.open() || links_[i].lost) continue;
      if (!links_[i].shared && !MakeMemory(&links_[i]).ok()) continue;
      TryConnect(i, now);
      if (!links_[i].socket.open()) next = std::min(next, tries_[i]);
    }
    return next;
  }

 private:
  absl::Status MakeMemory(Link* link) const {
    PSGD_ASSIGN_OR_RETURN(SharedMemory memory,
                          SharedMemory::Create(SharedLink::BytesFor(ArenaBytes())));
    link->shared.emplace(std::move(memory), ArenaBytes(), SharedLink::Side::kConnector);
    return absl::OkStatus();
  }

  void TryConnect(size_t i, Time now) {
    Link& link = links_[i];
    if (now < tries_[i] || link.lost || !link.shared) return;
    tries_[i] = now + kRetry;
    absl::StatusOr<FileDescriptor> socket = ConnectUnix(addresses_[i]);
    if (!socket.ok() || !IsOwnUser(socket->get())) return;
    const std::string pass = options_.security ? options_.security->curve.public_key : "";
    if (!SendHello(socket->get(), ArenaBytes(), pass, link.shared->fd(), i, bell_).ok()) return;
    link.socket = *std::move(socket);
    Watch(link.socket, i);
  }

  const std::vector<Address> addresses_;
  std::vector<Link> links_;
  std::vector<Time> tries_;  // by link: when the next is due
};

}  // namespace

StatusOrEndpoint ConnectIpc(const std::vector<std::string>& addresses,
                            const TransportOptions& options) {
  if (addresses.size() > Bell::kMostLinks) {
    return InvalidArgumentError(addresses.size(), " addresses are more than the ", Bell::kMostLinks,
                                " that shared memory connects to");
  }
  std::vector<Address> parsed;
  for (const std::string& text : addresses) {
    PSGD_ASSIGN_OR_RETURN(Address address, ParseIpcAddress(text));
    parsed.push_back(std::move(address));
  }
  PSGD_ASSIGN_OR_RETURN(Bell bell, Bell::Create());
  PSGD_ASSIGN_OR_RETURN(FileDescriptor epoll, MakeEpoll());
  auto endpoint =
      std::make_unique<IpcConnector>(options, std::move(bell), std::move(epoll), std::move(parsed));
  PSGD_RETURN_IF_ERROR(endpoint->Open());
  return endpoint;
}

}  // namespace psgd
