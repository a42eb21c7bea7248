#include "server/control/shard_set.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/control/replicated_journal.h"
#include "server/durability/journal_folder.h"
#include "server/durability/rocks_journal.h"

namespace psgd {

absl::StatusOr<std::unique_ptr<ShardSet>> ShardSet::Open(ShardSetOptions options) {
  std::unique_ptr<ShardSet> set(new ShardSet(std::move(options)));
  PSGD_RETURN_IF_ERROR(set->StartTransport());
  return set;
}

bool ShardSet::HasJournal() const {
  return options_.config.durability().acknowledge() != DurabilityConfig::MEMORY;
}

absl::Status ShardSet::StartTransport() {
  TransportOptions transport_options;
  transport_options.queue_bytes = options_.config.cluster().queue();
  transport_options.log = options_.log;
  transport_options.security = options_.security;
  PSGD_ASSIGN_OR_RETURN(transport_,
                        MakeTransport(options_.config.cluster().transport(), transport_options));
  if (options_.config.cluster().transport() != ClusterConfig::IPC) return absl::OkStatus();
  const auto reopen = [&] {
    const std::string first = options_.known.begin()->second.substr(std::string("ipc://").size());
    return SocketFolder::Reopen(first.substr(0, first.rfind('/')));
  };
  PSGD_ASSIGN_OR_RETURN(SocketFolder folder,
                        options_.known.empty() ? SocketFolder::Create() : reopen());
  sockets_.emplace(std::move(folder));
  return absl::OkStatus();
}

std::string ShardSet::ListenAddress(uint32_t shard) const {
  const auto known = options_.known.find(shard);
  if (options_.config.cluster().transport() == ClusterConfig::IPC) {
    if (known != options_.known.end()) return known->second;
    return absl::StrCat("ipc://", sockets_->path(), "/shard-", shard, ".sock");
  }
  if (known == options_.known.end()) return absl::StrCat("tcp://", options_.host, ":0");
  // The host that workers know it by may be the one that was advertised.
  return absl::StrCat("tcp://", options_.host, known->second.substr(known->second.rfind(':')));
}

std::string ShardSet::Advertised(std::string address) const {
  if (options_.advertise.empty() || address.rfind("tcp://", 0) != 0) return address;
  return absl::StrCat("tcp://", options_.advertise, address.substr(address.rfind(':')));
}

absl::Status ShardSet::AddJournal(uint32_t shard, bool is_there,
                                  DurableShardOptions* options) const {
  if (!HasJournal()) return absl::OkStatus();
  RocksJournalOptions journal;
  journal.folder = JournalFolder(options_.journal_dir, absl::StrCat("shard-", shard));
  journal.shard = shard;
  journal.sync = options_.config.durability().acknowledge() == DurabilityConfig::FSYNC;
  journal.failpoint = options_.failpoint;
  auto rocks =
      is_there ? RocksJournal::Open(std::move(journal)) : RocksJournal::Create(std::move(journal));
  PSGD_RETURN_IF_ERROR(rocks.status());
  options->journal = *std::move(rocks);
  if (options_.followers != nullptr) {
    options->journal =
        std::make_unique<ReplicatedJournal>(std::move(options->journal), shard, options_.followers);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DurableShard>> ShardSet::Create(uint32_t shard,
                                                               uint32_t starts) const {
  DurableShardOptions options = DurableShardOptionsOf(options_.config, shard, starts);
  PSGD_RETURN_IF_ERROR(AddJournal(shard, /*is_there=*/false, &options));
  return std::make_unique<DurableShard>(std::move(options));
}

absl::StatusOr<std::unique_ptr<DurableShard>> ShardSet::Recover(
    uint32_t shard, uint32_t starts, std::vector<std::string>* notes) const {
  DurableShardOptions options = DurableShardOptionsOf(options_.config, shard, starts);
  PSGD_RETURN_IF_ERROR(AddJournal(shard, /*is_there=*/true, &options));
  return DurableShard::Recover(std::move(options), notes);
}

absl::StatusOr<std::unique_ptr<DurableShard>> ShardSet::FromImage(const ShardImage& image,
                                                                  uint32_t shard,
                                                                  uint32_t starts) const {
  DurableShardOptions options = DurableShardOptionsOf(options_.config, shard, starts);
  PSGD_RETURN_IF_ERROR(AddJournal(shard, /*is_there=*/false, &options));
  return DurableShard::FromImage(std::move(options), image);
}

absl::StatusOr<std::shared_ptr<ShardServer>> ShardSet::Serve(uint32_t shard,
                                                             std::unique_ptr<DurableShard> durable,
                                                             bool stands_still) {
  PSGD_ASSIGN_OR_RETURN(auto endpoint, transport_->Listen(ListenAddress(shard)));
  if (stands_still) durable->StandStill();
  std::string address = Advertised(endpoint->address());
  auto server =
      std::make_shared<ShardServer>(shard, std::move(address), std::move(durable),
                                    std::move(endpoint), options_.callbacks, options_.log);
  std::lock_guard lock(mutex_);
  shards_[shard] = server;
  return server;
}

std::shared_ptr<ShardServer> ShardSet::Find(uint32_t shard) const {
  std::lock_guard lock(mutex_);
  const auto found = shards_.find(shard);
  return found == shards_.end() ? nullptr : found->second;
}

void ShardSet::Drop(uint32_t shard) {
  std::shared_ptr<ShardServer> gone;
  {
    std::lock_guard lock(mutex_);
    const auto found = shards_.find(shard);
    if (found == shards_.end()) return;
    gone = std::move(found->second);
    shards_.erase(found);
  }
  gone->Stop();
  Forget(shard);
}

void ShardSet::Forget(uint32_t shard) const {
  if (!HasJournal()) return;
  std::error_code ignored;  // it is overwritten, should the shard come back
  std::filesystem::remove_all(JournalFolder(options_.journal_dir, absl::StrCat("shard-", shard)),
                              ignored);
}

void ShardSet::Clear() {
  std::lock_guard lock(mutex_);
  for (auto& [shard, server] : shards_) server->Stop();
  shards_.clear();
}

}  // namespace psgd
