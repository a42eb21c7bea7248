// The shared part of both endpoints of processes on one machine: waiting, and links.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/file_descriptor.h"
#include "net/address.h"
#include "net/ipc/bell.h"
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
    FileDescriptor socket;
    std::optional<SharedLink> shared;
    std::optional<Bell> bell;  // the peer's; unset before it was met
    std::string pass;          // the pass that the peer proved to have
    bool lost = false;         // the peer is gone; what it had sent is still read

    bool HasIncoming() const { return shared && shared->HasIncoming(); }
    // Whether TryReceive has something to do for this link. It also drops a lost link.
    bool HasWork() const { return lost || HasIncoming(); }
  };

  IpcEndpoint(const TransportOptions& options, Bell bell, FileDescriptor epoll);

  // The next message of any peer, without waiting.
  virtual Attempt TryReceive() = 0;
  // Whether TryReceive has something to do.
  virtual bool AnyWork() const = 0;
  // The socket with this key is readable, or its peer is gone.
  virtual void OnSocket(uint64_t key, bool gone) = 0;
  // Called at times. Returns when to call it again at the latest.
  virtual Time Maintain(Time now) = 0;

  // The next message of this peer.
  Attempt Take(PeerId from, Link& link);
  absl::Status SendTo(PeerId to, Link& link, const Message& message);
  // The size of both arenas of a link that this side makes.
  uint64_t ArenaBytes() const;
  // Reports events of the socket under the key until it is closed.
  void Watch(const FileDescriptor& socket, uint64_t key);
  // Looks at the sockets without waiting, unless it did just before.
  void LookAtSockets(bool now = false);

  Bell bell_;

 private:
  void HandleSockets(Duration wait);
  // Whether nothing can have come since the last wait began, so no link needs a look.
  bool IsQuiet();
  void EndQuiet();

  FileDescriptor epoll_;
  WakeEvent wake_;
  Time looked_{};
  Spin spin_;
  Time moved_{};  // when the last message came or left
  // The bell is armed, and all links were empty after that.
  bool quiet_ = false;
};

StatusOrEndpoint ListenIpc(const std::string& address, const TransportOptions& options);
StatusOrEndpoint ConnectIpc(const std::vector<std::string>& addresses,
                            const TransportOptions& options);

}  // namespace psgd
