#include "server/server_shares.h"

#include <algorithm>
#include <set>

namespace psgd {
namespace {

// One that went in order holds nothing; for one that is away the run waits.
const char* StateOf(const ServerShare& share) {
  if (share.server.connected()) return share.server.leaving() ? "leaves" : "live";
  return share.server.leaving() && share.shards.empty() ? "left" : "away";
}

}  // namespace

std::vector<ServerShare> SharesOf(const StatusReply& status) {
  std::vector<ServerShare> shares;
  for (const ServerStatus& server : status.servers()) {
    ServerShare share;
    share.server = server;
    share.coordinates = shares.empty();
    for (const ShardStatus& shard : status.shards()) {
      if (shard.server() != server.server()) continue;
      share.shards.push_back(shard.shard());
      share.bytes += shard.bytes();
    }
    share.state = StateOf(share);
    shares.push_back(std::move(share));
  }
  return shares;
}

int ServersThatHold(const StatusReply& status) {
  std::set<uint32_t> servers;
  for (const ShardStatus& shard : status.shards()) servers.insert(shard.server());
  return std::max(1, static_cast<int>(servers.size()));
}

}  // namespace psgd
