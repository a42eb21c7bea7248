#include "server/control/server_shares.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/shell_line.h"
#include "common/units.h"
#include "proto/has_journal.h"

namespace psgd {
namespace {

bool Has(const google::protobuf::RepeatedField<uint32_t>& servers, uint32_t server) {
  return std::ranges::find(servers, server) != servers.end();
}

// A server that left in order leads nothing. The run waits for a server that is away.
const char* StateOf(const ServerShare& share) {
  if (share.server.connected()) return share.server.leaving() ? "leaves" : "live";
  return share.server.leaving() && share.shards.empty() ? "left" : "away";
}

}  // namespace

std::vector<ServerShare> SharesOf(const StatusReply& status) {
  std::vector<ServerShare> shares;
  if (status.servers_size() < 2) return shares;
  for (const ServerStatus& server : status.servers()) {
    ServerShare share;
    share.server = server;
    for (const ShardStatus& shard : status.shards()) {
      if (shard.server() == server.server()) {
        share.shards.push_back(shard.shard());
        share.bytes += shard.bytes();
      } else if (Has(shard.in_sync(), server.server())) {
        ++share.copies;
      } else if (Has(shard.copies(), server.server())) {
        ++share.catching_up;
      }
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

std::string StopWaitsFor(const StatusReply& status) {
  std::string away;
  for (const ServerShare& share : SharesOf(status)) {
    if (share.server.connected() || share.shards.empty()) continue;
    absl::StrAppend(&away, away.empty() ? "" : ", ", "server ", share.server.server(), " (",
                    share.server.name(), ", with ", share.shards.size(),
                    share.shards.size() == 1 ? " shard)" : " shards)");
  }
  if (away.empty()) return "";
  const int64_t deadline = status.config().cluster().deadline();
  // First the workers give up, then the run's leader.
  const std::string most =
      HasJournal(status.config())
          ? absl::StrCat(" (if it died: ps-server --join with its --run-dir), at most ",
                         FormatMilliseconds(2 * deadline), " (cluster.deadline twice)")
          : absl::StrCat(", at most ", FormatMilliseconds(deadline),
                         " (cluster.deadline): if it died, its shards are lost, and the run fails");
  return absl::StrCat("stopping waits until ", away, " is back", most,
                      "; asked to stop once more, this ends at once");
}

std::string StopWaitsForRunStore(const StatusReply& status) {
  return absl::StrCat(status.waits_for(), "; stopping waits for it at most ",
                      FormatMilliseconds(2 * status.config().cluster().deadline()),
                      " (cluster.deadline twice); asked to stop once more, this ends at once");
}

std::string StopWaitsForStorage(const StatusReply& status) {
  const Config& config = status.config();
  const std::string after = absl::StrCat(
      "stopping waits until this can be written: ", status.storage_trouble(), ". After ",
      FormatMilliseconds(config.cluster().deadline()), " (cluster.deadline)");
  return HasJournal(config)
             ? absl::StrCat(after,
                            ", or asked to stop once more, this ends at once; with room again, ",
                            ShellLine({"ps-server", "--recover", status.run_dir()}),
                            " goes on from the journal")
             : absl::StrCat(after,
                            " the weights are saved without it; asked to stop once more, this ends "
                            "at once");
}

}  // namespace psgd
