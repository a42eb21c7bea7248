#include "server/durability/checkpoint_store.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/finite.h"
#include "common/names.h"
#include "server/durability/best_checkpoint.h"
#include "server/durability/checkpoint_database.h"
#include "server/durability/checkpoint_files.h"

namespace psgd {
namespace {

constexpr absl::string_view kCheckpoint = "checkpoint";
constexpr absl::string_view kDiscarded = "discarded";

// A run that goes on from such weights fails again, and older checkpoints would make room for them.
// The optimizer's arrays may be infinite: weights with such a second moment do not move any more.
absl::Status CheckFinite(const ShardSnapshot& snapshot) {
  const auto check = [](const SliceSnapshot& slice, absl::string_view what, const Bytes& numbers) {
    if (AllFinite(numbers.span())) return absl::OkStatus();
    return OutOfRangeError("training diverged: the ", what, " of slice ", slice.id, " of ",
                           slice.parameter,
                           " are not all finite numbers, so no checkpoint is made of them");
  };
  for (const SliceSnapshot& slice : snapshot.slices) {
    PSGD_RETURN_IF_ERROR(check(slice, "weights", slice.weights));
    for (const auto& [name, numbers] : slice.states) {
      if (name == kAverageState) PSGD_RETURN_IF_ERROR(check(slice, "averages", numbers));
    }
  }
  return absl::OkStatus();
}

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
    return FailedPreconditionError("checkpoint ", id, " in ", root_,
                                   " was not begun, or was removed meanwhile");
  }
  PSGD_RETURN_IF_ERROR(CheckFinite(snapshot));
  return WriteShardDatabase(ShardFolder(root_, id, shard), shard, snapshot);
}

absl::Status CheckpointStore::Seal(CheckpointManifest manifest) const {
  std::set<uint32_t> present;
  for (const ShardReceipt& receipt : manifest.shards()) present.insert(receipt.shard());
  for (const SliceSpec& slice : manifest.placement().slices()) {
    if (!present.contains(slice.shard())) {
      return FailedPreconditionError("checkpoint ", manifest.id(), " lacks the part of shard ",
                                     slice.shard());
    }
  }
  if (present.size() != static_cast<size_t>(manifest.shards_size())) {
    return FailedPreconditionError("checkpoint ", manifest.id(), " has two parts of one shard");
  }
  if (manifest.unix_seconds() == 0) manifest.set_unix_seconds(std::time(nullptr));
  std::ranges::sort(*manifest.mutable_shards(), {}, &ShardReceipt::shard);
  return WriteManifest(ManifestPath(root_, manifest.id()), manifest);
}

absl::Status CheckpointStore::Discard(uint64_t id) const {
  if (FileExists(ManifestPath(root_, id))) return absl::OkStatus();
  return RemoveFolder(CheckpointFolder(root_, id));
}

uint64_t CheckpointStore::BytesOnDisk() const {
  uint64_t bytes = 0;
  const auto ids = FolderIds(root_, kCheckpoint);
  if (!ids.ok()) return bytes;
  for (const uint64_t id : *ids) {
    // A file may go while this looks.
    std::error_code error;
    std::filesystem::recursive_directory_iterator at(CheckpointFolder(root_, id), error), end;
    for (; !error && at != end; at.increment(error)) {
      std::error_code no_file;
      const uint64_t size = at->file_size(no_file);
      if (!no_file) bytes += size;
    }
  }
  return bytes;
}

absl::StatusOr<std::vector<uint64_t>> CheckpointStore::Prune(int keep) const {
  PSGD_ASSIGN_OR_RETURN(const auto ids, FolderIds(root_, kCheckpoint));
  std::vector<std::string> ignored;
  PSGD_ASSIGN_OR_RETURN(const auto manifests, List(&ignored));
  const std::set<uint64_t> stay = KeptForBest(manifests);
  std::vector<uint64_t> removed;
  int kept = 0;
  for (uint64_t id : ids) {
    const auto manifest = ReadManifest(ManifestPath(root_, id));
    if (manifest.ok() && !manifest->name().empty()) continue;
    if (kept < std::max(keep, 1)) {
      // An unreadable checkpoint does not count, so damage never costs a sound checkpoint.
      if (manifest.ok()) ++kept;
      continue;
    }
    if (stay.contains(id)) continue;
    // The manifest goes first: a crash half-way must not leave a sealed checkpoint that lacks
    // files.
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
    return DataLossError(ManifestPath(root_, id), " belongs to checkpoint ", manifest.id());
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
    notes.push_back(absl::StrCat("checkpoint ", id,
                                 " is damaged and passed over: ", loaded.status().message()));
  }
  if (!sealed) {
    return NotFoundError("no complete checkpoint in ", root_,
                         "; check the path, or start the run anew");
  }
  return DataLossError("every checkpoint in ", root_, " is damaged: ", absl::StrJoin(notes, "; "),
                       "; restore the folder from a copy, or start the run anew");
}

namespace {

constexpr absl::string_view kFolder = "checkpoint";

std::string Shown(const std::string& name) {
  std::string shown = name.substr(0, kLongestName);
  for (char& c : shown) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = '?';
  }
  return shown;
}

}  // namespace

absl::Status CheckName(const std::string& name) {
  const bool number = std::ranges::all_of(name, absl::ascii_isdigit);
  if (name == kBest) {
    return InvalidArgumentError(
        "\"best\" names the checkpoint with the best evaluation: choose another name");
  }
  if (IsName(name) && !number) return absl::OkStatus();
  return InvalidArgumentError(
      "\"", Shown(name), "\" cannot be a checkpoint's name: 1 to ", kLongestName,
      " letters, digits, '.', '_' or '-', and not a number alone, as before-decay");
}

absl::Status CheckNewName(const CheckpointStore& store, const std::string& name) {
  if (name.empty()) return absl::OkStatus();
  PSGD_RETURN_IF_ERROR(CheckName(name));
  const auto taken = store.Find(name);
  if (absl::IsNotFound(taken.status())) return absl::OkStatus();
  PSGD_RETURN_IF_ERROR(taken.status());
  return AlreadyExistsError("checkpoint ", *taken, " has the name ", name, "; choose another");
}

absl::StatusOr<uint64_t> CheckpointStore::Find(const std::string& id_or_name) const {
  uint64_t id = 0;
  if (absl::SimpleAtoi(id_or_name, &id)) {
    if (FileExists(CheckpointFolder(root_, id))) return id;
  } else {
    std::vector<std::string> ignored;
    PSGD_ASSIGN_OR_RETURN(const auto manifests, List(&ignored));
    for (const CheckpointManifest& manifest : manifests) {
      if (manifest.name() == id_or_name) return manifest.id();
    }
    if (id_or_name == kBest) {
      if (const auto best = BestOf(manifests)) return *best;
      return NotFoundError("no checkpoint in ", root_,
                           " has an evaluation: take one at the end of each epoch, as with "
                           "durability.checkpoint: 1 epoch");
    }
  }
  return NotFoundError("there is no checkpoint ", Shown(id_or_name), " in ", root_,
                       "; ps-ctl checkpoints lists those that there are");
}

absl::StatusOr<std::optional<EvalResult>> CheckpointStore::EvaluationOf(uint64_t id) const {
  std::vector<std::string> ignored;
  PSGD_ASSIGN_OR_RETURN(const auto manifests, List(&ignored));
  for (size_t i = 0; i < manifests.size(); ++i) {
    if (manifests[i].id() != id) continue;
    const EvalResult* const result = psgd::EvaluationOf(manifests, i);
    if (result != nullptr) return *result;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<uint64_t>> CheckpointStore::KeptBest() const {
  std::vector<std::string> ignored;
  PSGD_ASSIGN_OR_RETURN(const auto manifests, List(&ignored));
  return KeepsBest(manifests) ? BestOf(manifests) : std::nullopt;
}

absl::StatusOr<uint64_t> CheckpointStore::LastId() const {
  PSGD_ASSIGN_OR_RETURN(const auto ids, FolderIds(root_, kFolder));
  return ids.empty() ? 0 : ids.front();
}

absl::StatusOr<std::vector<CheckedCheckpoint>> CheckpointStore::Verify() const {
  PSGD_ASSIGN_OR_RETURN(const auto ids, FolderIds(root_, kFolder));
  std::vector<CheckedCheckpoint> checked;
  for (const uint64_t id : ids) {
    CheckedCheckpoint& checkpoint = checked.emplace_back();
    checkpoint.id = id;
    checkpoint.sealed = FileExists(ManifestPath(root_, id));
    if (!checkpoint.sealed) {
      checkpoint.status = absl::NotFoundError("it was never completed");
      continue;
    }
    if (auto manifest = ReadManifest(ManifestPath(root_, id)); manifest.ok()) {
      checkpoint.manifest = *std::move(manifest);
    }
    checkpoint.status = Load(id).status();
  }
  return checked;
}

}  // namespace psgd
