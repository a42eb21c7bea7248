// The shared part of both endpoints of processes on one machine: waiting, and links.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/file_descriptor.h"
#include "net/address.h"
#include "net/ipc/bell.h"
#include "net/ipc/link_set.h"
#include "net/ipc/shared_link.h"
#include "net/joinable_endpoint.h"
#include "net/spin.h"
#include "net/wake_event.h"

namespace psgd {

class IpcEndpoint : public JoinableEndpoint {
 public:
  std::optional<Received> Receive(Duration timeout) final;
  void Wake() final { wake_.Set(); }

  bool HasWork() final { return !IsQuiet() && AnyWork(); }
  bool BeginWait() final;
  void EndWait() final { (void)IsQuiet(); }
  int fd() const final { return epoll_.get(); }

 protected:
  // One connection, or the attempt at one.
  struct Link {
    PeerId peer = 0;
    size_t number = 0;        // among this side's links: the peer marks it in bell_
    size_t number_there = 0;  // among the peer's links, for its bell
    FileDescriptor socket;
    std::optional<SharedLink> shared;
    std::optional<Bell> bell;  // the peer's; unset before it was met
    std::string pass;          // the pass that the peer proved to have
    bool lost = false;         // the peer is gone; what it had sent is still read
  };

  IpcEndpoint(const TransportOptions& options, Bell bell, FileDescriptor epoll);

  // The link of this number; null: there is none, whatever a peer marked.
  virtual Link* LinkAt(size_t number) = 0;
  // Of a lost link, once all that came is read.
  virtual void Drop(Link& link) = 0;
  // The socket with this key is readable, or its peer is gone.
  virtual void OnSocket(uint64_t key, bool gone) = 0;
  // Called at times. Returns when to call it again at the latest.
  virtual Time Maintain(Time now) = 0;

  // Numbers of links below this are in use from now on.
  void MakeRoom(size_t links) { pending_.MakeRoom(links); }
  // TryReceive looks at the link, without a mark of its peer.
  void LookAt(const Link& link) { pending_.Add(link.number); }
  // Looks at the link once more, and drops it once all that came is read.
  void Lose(Link& link);
  absl::Status SendTo(Link& link, const Message& message);
  // The size of both arenas of a link that this side makes.
  uint64_t ArenaBytes() const;
  // Reports events of the socket under the key until it is closed.
  void Watch(const FileDescriptor& socket, uint64_t key);
  // Looks at the sockets without waiting, unless it did just before. Now and then all links deserve
  // a look afterwards.
  void LookAtSockets(bool now = false);

  Bell bell_;

 private:
  // The next message of any peer, without waiting.
  Attempt TryReceive();
  // The next message of this peer.
  Attempt Take(Link& link);
  // Whether TryReceive has something to do.
  bool AnyWork() const { return pending_.Any() || bell_.AnyMarked(pending_); }
  void HandleSockets(Duration wait);
  // Whether nothing can have come since the last wait began, so no link needs a look.
  bool IsQuiet();
  void EndQuiet();

  FileDescriptor epoll_;
  WakeEvent wake_;
  Time looked_{};
  Spin spin_;
  Time moved_{};     // when the last message came or left
  LinkSet pending_;  // links that deserve a look
  size_t next_ = 0;  // where the next look begins
  Time looked_at_all_{};
  // The bell is armed, and no link deserved a look after that.
  bool quiet_ = false;
};

StatusOrEndpoint ListenIpc(const std::string& address, const TransportOptions& options);
StatusOrEndpoint ConnectIpc(const std::vector<std::string>& addresses,
                            const TransportOptions& options);

}  // namespace psgd
