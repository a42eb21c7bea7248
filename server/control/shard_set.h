// The shards that a process holds: how they are made, and what they are reached by.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/log.h"
#include "net/transport_security.h"
#include "server/control/follower_set.h"
#include "server/control/shard_server.h"
#include "server/control/socket_folder.h"
#include "server/durability/failpoint.h"

namespace psgd {

struct ShardSetOptions {
  Config config;
  std::string host;         // that data ports bind to
  std::string advertise;    // that workers are told; empty: host
  std::string journal_dir;  // where there is one
  std::shared_ptr<const TransportSecurity> security;
  std::shared_ptr<FollowerSet> followers;    // null: there are none
  std::shared_ptr<FailpointPlan> failpoint;  // for tests; null: there is none
  // By shard: where workers know it from before; empty: they do not.
  std::map<uint32_t, std::string> known;
  ShardCallbacks callbacks;
  Log log = NullLog();
};

// Thread-safe but for Open.
class ShardSet {
 public:
  static absl::StatusOr<std::unique_ptr<ShardSet>> Open(ShardSetOptions options);

  // Without a model.
  absl::StatusOr<std::unique_ptr<DurableShard>> Create(uint32_t shard, uint32_t starts) const;
  // From its journal. `notes`: what of that is damaged and was not needed.
  absl::StatusOr<std::unique_ptr<DurableShard>> Recover(uint32_t shard, uint32_t starts,
                                                        std::vector<std::string>* notes) const;
  // As it was elsewhere.
  absl::StatusOr<std::unique_ptr<DurableShard>> FromImage(const ShardImage& image, uint32_t shard,
                                                          uint32_t starts) const;
  // It answers workers from now on, or stands still first.
  absl::StatusOr<std::shared_ptr<ShardServer>> Serve(uint32_t shard,
                                                     std::unique_ptr<DurableShard> durable,
                                                     bool stands_still = false);
  // Null: it is not here.
  std::shared_ptr<ShardServer> Find(uint32_t shard) const;
  // It is elsewhere now; its journal goes.
  void Drop(uint32_t shard);
  // Likewise one that was not served again.
  void Forget(uint32_t shard) const;
  void Clear();

 private:
  explicit ShardSet(ShardSetOptions options) : options_(std::move(options)) {}
  absl::Status StartTransport();
  std::string ListenAddress(uint32_t shard) const;
  std::string Advertised(std::string address) const;
  bool HasJournal() const;
  absl::Status AddJournal(uint32_t shard, bool is_there, DurableShardOptions* options) const;

  const ShardSetOptions options_;
  std::optional<SocketFolder> sockets_;  // of transport ipc
  std::unique_ptr<Transport> transport_;
  mutable std::mutex mutex_;  // guards shards_
  std::map<uint32_t, std::shared_ptr<ShardServer>> shards_;
};

}  // namespace psgd
