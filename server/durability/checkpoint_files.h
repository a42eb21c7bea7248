// Names, checksums and durability of a checkpoint's files and folders.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/status.h"
#include "proto/checkpoint.pb.h"

namespace psgd {

std::string CheckpointFolder(const std::string& root, uint64_t id);
std::string ShardFolder(const std::string& root, uint64_t id, uint32_t shard);
std::string ManifestPath(const std::string& root, uint64_t id);

// Ids of the folders in `root` named PREFIX-<12 or more digits>, newest first; none if there is no
// such root.
absl::StatusOr<std::vector<uint64_t>> FolderIds(const std::string& root, absl::string_view prefix);
std::string NumberedFolder(const std::string& root, absl::string_view prefix, uint64_t id);

absl::Status MakeFolders(const std::string& path);
// Removes the folder with all contents. A missing folder is OK.
absl::Status RemoveFolder(const std::string& path);
inline constexpr char kGoneSuffix[] = ".gone";
// Like RemoveFolder, but a crash leaves the whole folder or no folder of this name. It may leave
// files in a folder whose name ends in kGoneSuffix; the next call removes them.
absl::Status DiscardFolder(const std::string& path);
// Replaces an empty or absent `to`.
absl::Status RenameFolder(const std::string& from, const std::string& to);
absl::Status SyncFolder(const std::string& path);
// Syncs every file in the folder and the folder itself.
absl::Status SyncFiles(const std::string& folder);
bool FileExists(const std::string& path);

// Syncs every file of `folder` and the folder itself, and returns the files with sizes and
// checksums.
absl::StatusOr<std::vector<CheckpointFile>> SyncAndList(const std::string& folder);
// DATA_LOSS names a file that is missing, short, long or changed. Files that are not listed are
// ignored.
absl::Status VerifyFiles(const std::string& folder,
                         const google::protobuf::RepeatedPtrField<CheckpointFile>& files);

// The manifest file: "PSGDCKPT", format version (4 bytes), 0 (4), length (8), XXH3-64 of the
// message (8), CheckpointManifest; numbers little-endian.
absl::Status WriteManifest(const std::string& path, const CheckpointManifest& manifest);
absl::StatusOr<CheckpointManifest> ReadManifest(const std::string& path);

}  // namespace psgd
