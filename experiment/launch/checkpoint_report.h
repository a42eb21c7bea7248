// What psgd says about a run's checkpoints, to people and to programs.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "experiment/record/readable.h"
#include "experiment/record/records.h"
#include "proto/control.pb.h"
#include "server/durability/checkpoint_store.h"

namespace psgd {

// Opens the checkpoint store of a run. NOT_FOUND: `run_dir` is not a run directory.
absl::StatusOr<CheckpointStore> CheckpointsOf(const std::string& run_dir);

uint64_t BytesOf(const CheckpointManifest& manifest);
// The info that a server gives, but the age counts from when the checkpoint was taken.
CheckpointInfo InfoOf(const CheckpointManifest& manifest);
// The infos of all checkpoints of a run, newest first. The best is marked if the run keeps it.
std::vector<CheckpointInfo> InfosOf(const std::vector<CheckpointManifest>& manifests);
// Such as "before-decay", "best", "given up" or "-", for a table.
std::string NamesOf(const CheckpointInfo& info);
Record CheckpointRecord(const CheckpointInfo& info);

// Lists a run's checkpoints, newest first. `notes` names the unreadable ones.
absl::StatusOr<std::vector<CheckpointInfo>> CheckpointsIn(const std::string& run_dir,
                                                          std::vector<std::string>* notes);
// As CheckpointStore::Prune; returns a text that says what was removed. Fails while a server writes
// there, because the server prunes on its own.
absl::StatusOr<std::string> PruneCheckpoints(const std::string& run_dir, int keep, bool json);

TextTable CheckpointTable(const std::vector<CheckpointInfo>& checkpoints);
// Formats a table, or JSON.
std::string CheckpointList(const std::vector<CheckpointInfo>& checkpoints, bool json);

}  // namespace psgd
