// Checkpoints by name and by number, and whether they are sound.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/access.h"
#include "server/checkpoint_files.h"
#include "server/checkpoint_store.h"

namespace psgd {
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
  const bool number = std::all_of(name.begin(), name.end(), absl::ascii_isdigit);
  if (IsName(name) && !number) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("\"", Shown(name), "\" cannot be a checkpoint's name: 1 to ", kLongestName,
                   " letters, digits, '.', '_' or '-', and not a number alone, as before-decay"));
}

absl::Status CheckNewName(const CheckpointStore& store, const std::string& name) {
  if (name.empty()) return absl::OkStatus();
  PSGD_RETURN_IF_ERROR(CheckName(name));
  const auto taken = store.Find(name);
  if (absl::IsNotFound(taken.status())) return absl::OkStatus();
  PSGD_RETURN_IF_ERROR(taken.status());
  return absl::AlreadyExistsError(
      absl::StrCat("checkpoint ", *taken, " has the name ", name, "; choose another"));
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
  }
  return absl::NotFoundError(absl::StrCat("there is no checkpoint ", Shown(id_or_name), " in ",
                                          root_, "; ps-ctl checkpoints lists those that there are"));
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
