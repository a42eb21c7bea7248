#include "server/checkpoint_store.h"

#include <algorithm>
#include <ctime>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/checkpoint_database.h"
#include "server/checkpoint_files.h"

namespace psgd {
namespace {

constexpr absl::string_view kCheckpoint = "checkpoint";
constexpr absl::string_view kDiscarded = "discarded";

}  // namespace

absl::Status CheckpointStore::Begin(uint64_t id) const {
  PSGD_RETURN_IF_ERROR(MakeFolders(root_));
  PSGD_ASSIGN_OR_RETURN(const auto ids, FolderIds(root_, kCheckpoint));
  for (uint64_t later : ids) {
    if (later < id) continue;
    const std::string aside = NumberedFolder(root_, kDiscarded, later);
    PSGD_RETURN_IF_ERROR(RemoveFolder(aside));
    PSGD_RETURN_IF_ERROR(RenameFolder(CheckpointFolder(root_, later), aside));
  }
  PSGD_RETURN_IF_ERROR(MakeFolders(CheckpointFolder(root_, id)));
  return SyncFolder(root_);
}

absl::StatusOr<ShardReceipt> CheckpointStore::WriteShard(uint64_t id, uint32_t shard,
                                                         const ShardSnapshot& snapshot) const {
  if (!FileExists(CheckpointFolder(root_, id))) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoint ", id, " in ", root_, " was not begun, or was removed meanwhile"));
  }
  return WriteShardDatabase(ShardFolder(root_, id, shard), shard, snapshot);
}

absl::Status CheckpointStore::Seal(CheckpointManifest manifest) const {
  std::set<uint32_t> present;
  for (const ShardReceipt& receipt : manifest.shards()) present.insert(receipt.shard());
  for (const SliceSpec& slice : manifest.placement().slices()) {
    if (!present.contains(slice.shard())) {
      return absl::FailedPreconditionError(
          absl::StrCat("checkpoint ", manifest.id(), " lacks the part of shard ", slice.shard()));
    }
  }
  if (present.size() != static_cast<size_t>(manifest.shards_size())) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoint ", manifest.id(), " has two parts of one shard"));
  }
  if (manifest.unix_seconds() == 0) manifest.set_unix_seconds(std::time(nullptr));
  std::sort(manifest.mutable_shards()->begin(), manifest.mutable_shards()->end(),
            [](const ShardReceipt& a, const ShardReceipt& b) { return a.shard() < b.shard(); });
  return WriteManifest(ManifestPath(root_, manifest.id()), manifest);
}

absl::StatusOr<std::vector<uint64_t>> CheckpointStore::Prune(int keep) const {
  PSGD_ASSIGN_OR_RETURN(const auto ids, FolderIds(root_, kCheckpoint));
  std::vector<uint64_t> removed;
  int kept = 0;
  for (uint64_t id : ids) {
    const auto manifest = ReadManifest(ManifestPath(root_, id));
    if (manifest.ok() && !manifest->name().empty()) continue;
    if (kept < std::max(keep, 1)) {
      // One that cannot be read does not count, so that damage never costs a sound checkpoint.
      if (manifest.ok()) ++kept;
      continue;
    }
    // Unsealed first: a crash half-way must not leave a sealed checkpoint that lacks files.
    PSGD_RETURN_IF_ERROR(RemoveFolder(ManifestPath(root_, id)));
    PSGD_RETURN_IF_ERROR(SyncFolder(CheckpointFolder(root_, id)));
    PSGD_RETURN_IF_ERROR(RemoveFolder(CheckpointFolder(root_, id)));
    removed.push_back(id);
  }
  PSGD_ASSIGN_OR_RETURN(const auto discarded, FolderIds(root_, kDiscarded));
  for (uint64_t id : discarded) {
    PSGD_RETURN_IF_ERROR(RemoveFolder(NumberedFolder(root_, kDiscarded, id)));
  }
  return removed;
}

absl::StatusOr<std::vector<CheckpointManifest>> CheckpointStore::List(
    std::vector<std::string>* notes) const {
  PSGD_ASSIGN_OR_RETURN(const auto ids, FolderIds(root_, kCheckpoint));
  std::vector<CheckpointManifest> manifests;
  for (uint64_t id : ids) {
    const std::string path = ManifestPath(root_, id);
    if (!FileExists(path)) continue;
    auto manifest = ReadManifest(path);
    if (manifest.ok()) {
      manifests.push_back(*std::move(manifest));
    } else {
      notes->push_back(std::string(manifest.status().message()));
    }
  }
  return manifests;
}

absl::StatusOr<LoadedCheckpoint> CheckpointStore::Load(uint64_t id) const {
  PSGD_ASSIGN_OR_RETURN(CheckpointManifest manifest, ReadManifest(ManifestPath(root_, id)));
  if (manifest.id() != id) {
    return absl::DataLossError(
        absl::StrCat(ManifestPath(root_, id), " belongs to checkpoint ", manifest.id()));
  }
  std::vector<ShardSnapshot> shards;
  for (const ShardReceipt& receipt : manifest.shards()) {
    PSGD_ASSIGN_OR_RETURN(ShardSnapshot shard,
                          ReadShardDatabase(ShardFolder(root_, id, receipt.shard()), receipt));
    shards.push_back(std::move(shard));
  }
  auto loaded = LoadedCheckpoint::Assemble(std::move(manifest), shards);
  if (!loaded.ok()) return Annotate(loaded.status(), CheckpointFolder(root_, id));
  return loaded;
}

absl::StatusOr<LoadedCheckpoint> CheckpointStore::LoadNewest() const {
  PSGD_ASSIGN_OR_RETURN(const auto ids, FolderIds(root_, kCheckpoint));
  std::vector<std::string> notes;
  bool sealed = false;
  for (uint64_t id : ids) {
    if (!FileExists(ManifestPath(root_, id))) {
      notes.push_back(absl::StrCat("checkpoint ", id, " in ", root_,
                                   " was never completed; it is passed over"));
      continue;
    }
    sealed = true;
    auto loaded = Load(id);
    if (loaded.ok()) {
      for (std::string& note : notes) loaded->AddNote(std::move(note));
      return loaded;
    }
    notes.push_back(absl::StrCat("checkpoint ", id, " is damaged and passed over: ",
                                 std::string(loaded.status().message())));
  }
  if (!sealed) {
    return absl::NotFoundError(absl::StrCat("no complete checkpoint in ", root_,
                                            "; check the path, or start the run anew"));
  }
  return absl::DataLossError(
      absl::StrCat("every checkpoint in ", root_, " is damaged: ", absl::StrJoin(notes, "; "),
                   "; restore the folder from a copy, or start the run anew"));
}

}  // namespace psgd
