// What there is to say of a run's checkpoints, for people and for machines.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "experiment/record/records.h"
#include "proto/control.pb.h"
#include "server/durability/checkpoint_store.h"

namespace psgd {

// Where the checkpoints of a run are. NOT_FOUND: that is no run directory.
absl::StatusOr<CheckpointStore> CheckpointsOf(const std::string& run_dir);

uint64_t BytesOf(const CheckpointManifest& manifest);
// As a server tells of it, but for its age, which is since it was taken.
CheckpointInfo InfoOf(const CheckpointManifest& manifest);
Record CheckpointRecord(const CheckpointInfo& info);

// Those of a run, newest first; what cannot be read is told in `notes`.
absl::StatusOr<std::vector<CheckpointInfo>> CheckpointsIn(const std::string& run_dir,
                                                          std::vector<std::string>* notes);
// As CheckpointStore::Prune; says what was removed. An error while a server writes there: it prunes
// by itself.
absl::StatusOr<std::string> PruneCheckpoints(const std::string& run_dir, int keep, bool json);

// A table, or JSON.
std::string CheckpointList(const std::vector<CheckpointInfo>& checkpoints, bool json);

}  // namespace psgd
