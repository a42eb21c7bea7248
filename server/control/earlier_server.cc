#include "server/control/earlier_server.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "server/control/host_record.h"
#include "server/durability/checkpoint_files.h"
#include "server/durability/coordinator_store.h"
#include "server/durability/journal_folder.h"

namespace psgd {
namespace {

constexpr size_t kLargestFollowerRecord = 1u << 16;

std::string FollowerFile(const std::string& server_dir) { return server_dir + "/follower"; }

EarlierServer OfChain(FollowerRecord record) {
  std::string text = absl::StrCat("server ", record.replica(), " of run ", record.run_id());
  return {EarlierServer::Kind::kOfChain, std::move(record), std::move(text)};
}

EarlierServer Other(std::string text) { return {EarlierServer::Kind::kOther, {}, std::move(text)}; }

// What followed under an older version, or led, is known by the coordinator's record.
EarlierServer OfJournal(const CoordinatorRecord& coordinator) {
  if (coordinator.chain().run_id().empty()) {
    return Other("the journal of a run that nobody follows");
  }
  FollowerRecord record;
  record.set_run_id(coordinator.chain().run_id());
  record.set_replica(coordinator.replica());
  for (const Chain::Member& member : coordinator.chain().members()) {
    if (member.replica() == coordinator.replica()) record.set_identity(member.identity());
  }
  return OfChain(std::move(record));
}

}  // namespace

absl::StatusOr<EarlierServer> FindEarlierServer(const std::string& server_dir) {
  FollowerRecord follower;
  if (FileExists(FollowerFile(server_dir))) {
    PSGD_ASSIGN_OR_RETURN(const std::string contents,
                          ReadSmallFile(FollowerFile(server_dir), kLargestFollowerRecord));
    if (!follower.ParseFromString(contents) || follower.replica() == 0) {
      return Other(absl::StrCat("a damaged ", FollowerFile(server_dir)));
    }
  }
  const std::string folder = JournalFolder(server_dir, "coordinator");
  std::vector<std::string> damage;
  const auto coordinator = FileExists(folder)
                               ? CoordinatorStore::Check(folder, &damage)
                               : absl::StatusOr<CoordinatorRecord>(absl::NotFoundError(""));
  if (coordinator.ok()) {
    EarlierServer earlier = OfJournal(*coordinator);
    // A directory that followed one run may have been resumed as another.
    const bool same = follower.run_id() == earlier.record.run_id() &&
                      follower.replica() == earlier.record.replica();
    return same && follower.replica() > 0 ? OfChain(std::move(follower)) : earlier;
  }
  // It had begun to follow, or its journal is damaged, which those that it follows make good.
  if (follower.replica() > 0) return OfChain(std::move(follower));
  if (!absl::IsNotFound(coordinator.status())) {
    return Other("a journal that does not say of which run it is");
  }
  if (FileExists(HostRecordFile(server_dir))) {
    return EarlierServer{
        EarlierServer::Kind::kHost, {}, "a server that held shards for another (--join)"};
  }
  PSGD_ASSIGN_OR_RETURN(const auto checkpoints, FolderIds(server_dir, "checkpoint"));
  if (!checkpoints.empty()) return Other("a run's checkpoints");
  return EarlierServer();
}

absl::Status SaveFollowerRecord(const std::string& server_dir, const FollowerRecord& record) {
  return WriteFileAtomically(FollowerFile(server_dir), record.SerializeAsString());
}

}  // namespace psgd
