// The copies that a process holds: it makes them, and owns their ports and their links to copies on
// other servers.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/cores.h"
#include "net/credentials.h"
#include "net/transport_security.h"
#include "server/cluster/server_effects.h"
#include "server/control/copy_folder.h"
#include "server/control/copy_thread.h"
#include "server/control/leader_link.h"
#include "server/control/peer_stream.h"
#include "server/control/task_queue.h"
#include "server/durability/failpoint.h"

namespace psgd {

using FollowingStream = PeerStream<LeadingSays, FollowingSays>;

struct CopySetOptions {
  Config config;
  std::string run_id;
  std::string host;         // address that data ports bind to
  std::string advertise;    // address that workers are told; empty: `host`
  std::string journal_dir;  // used if there is a journal
  Duration silence{};       // CopyOptions.silence
  std::shared_ptr<const Credentials> credentials;
  std::shared_ptr<const TransportSecurity> security;
  std::shared_ptr<FailpointPlan> failpoint;  // for tests; null: there is none
  CopyCallbacks callbacks;                   // `on_send` is not used
  Log log = NullLog();
};

// Thread-safe, except Open.
class CopySet {
 public:
  // Opens the set, with the copies that the journals hold.
  static absl::StatusOr<std::unique_ptr<CopySet>> Open(CopySetOptions options);
  ~CopySet();

  std::set<uint32_t> shards() const;
  // Calls for a copy that is not here return UNAVAILABLE, or have no effect. `server`: this
  // server's number. REQUIRES: assigned.epoch() > 0.
  void Have(const AssignedCopy& assigned, uint32_t server);
  // Removes the copy and its journal, and ends the streams of its followers. Waits for the copy's
  // thread, those streams and the disk.
  void Drop(uint32_t shard);
  absl::Status Execute(const ShardOrderTo& order);
  void CheckpointDone(uint64_t checkpoint);
  absl::Status SaveImage(uint32_t shard, const std::shared_ptr<const ShardImage>& image);
  absl::Status Weights(
      uint32_t shard, const std::function<absl::Status(uint32_t slice, const Bytes& values)>& take);
  // Serves a follower on another server, until the stream ends.
  absl::Status Follow(const FollowingSays::Hello& hello, FollowingStream* stream);
  void Stop();

 private:
  struct Held {
    std::shared_ptr<CopyThread> copy;
    std::unique_ptr<FollowLink> link;  // null: the copy never followed
    uint32_t leader = 0;               // the server that it follows
  };
  struct Follower {
    FollowingStream* stream = nullptr;
    TaskQueue* queue = nullptr;
  };

  explicit CopySet(CopySetOptions options)
      : options_(std::move(options)),
        cores_(options_.config.cluster().pin() ? UsableCores() : Cores()) {}
  absl::Status StartTransport();
  absl::Status Recover();
  std::string ListenAddress(uint32_t shard) const;
  std::string Advertised(const std::string& address) const;
  std::unique_ptr<CopyFolder> FolderOf(uint32_t shard) const;
  // `durable`: what is in the place; null: there is nothing.
  std::shared_ptr<CopyThread> Make(uint32_t shard, std::shared_ptr<CopyPlace> place,
                                   std::unique_ptr<DurableShard> durable, std::optional<int> core);
  // For the shard's thread: a core on which fewest others stay; nullopt: any (cluster.pin).
  std::optional<int> TakeCore(uint32_t shard);
  std::unique_ptr<FollowLink> MakeLink(uint32_t shard, uint32_t server,
                                       const std::shared_ptr<CopyThread>& copy);
  std::shared_ptr<CopyThread> Find(uint32_t shard) const;
  void Send(CopySend send);
  uint32_t LeaderOf(uint32_t shard) const;

  const CopySetOptions options_;
  const Cores cores_;        // none, unless threads stay on them (cluster.pin)
  std::string socket_name_;  // begins the names of shared memory's sockets; empty: there are none
  std::unique_ptr<Transport> transport_;
  mutable std::mutex mutex_;                                     // guards what follows
  std::map<uint32_t, Held> copies_;                              // by shard
  std::map<uint32_t, int> core_of_;                              // by shard
  std::map<std::pair<uint32_t, uint32_t>, Follower> followers_;  // by shard and server
  std::multiset<uint32_t> served_;                               // the shard of each call of Follow
  std::condition_variable stream_ended_;
};

}  // namespace psgd
