// Checkpoints on disk: consistent cuts of all shards, sealed by the coordinator.
//
//   ROOT/checkpoint-000000000007/shard-0/   a RocksDB database of its own, written once
//   ROOT/checkpoint-000000000007/manifest   written last: seals the checkpoint
//   ROOT/discarded-000000000008/            unsealed or damaged; goes with the next Prune
//
// Every checkpoint has databases of its own, rather than one growing database a shard, because then
// a torn file spoils one checkpoint and not its predecessors, pruning is removing a folder, and a
// whole checkpoint can be verified or copied by itself. A database is filled with one sorted table
// file (no log, no memtable: a write is one pass over the data), synced, and never opened for
// writing again.
//
// Nothing is believed: the manifest carries its own checksum; it lists every file of every shard
// with size and checksum, which are compared before RocksDB sees the files; every value carries a
// checksum over its key and contents (checkpoint_format.h); and the whole must be complete and fit
// the model.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "common/status.h"
#include "proto/checkpoint.pb.h"
#include "server/shard/loaded_checkpoint.h"
#include "server/shard/snapshot.h"

namespace psgd {

// What is left of a checkpoint.
struct CheckedCheckpoint {
  uint64_t id = 0;
  std::optional<CheckpointManifest> manifest;  // if it can be read
  bool sealed = true;   // else its taking was cut short, and it does not count
  absl::Status status;  // what is wrong with it, and where
};

// A name that a checkpoint may have: [A-Za-z0-9._-]{1,64} and not a number, which would be an id.
absl::Status CheckName(const std::string& name);

// The folder that holds a run's checkpoints. Only Begin, WriteShard, Seal and Prune write; the rest
// leaves every file as it is and needs no lock. Thread-safe, as long as one process writes, each
// shard is written once a checkpoint, and Begin < WriteShard < Seal for each checkpoint.
class CheckpointStore {
 public:
  explicit CheckpointStore(std::string root) : root_(std::move(root)) {}

  // Makes room for checkpoint `id`. Whatever has this or a later id was not loaded by this run (it
  // is unsealed or damaged) and is renamed to discarded-*.
  absl::Status Begin(uint64_t id) const;
  // Writes and syncs one shard's part.
  absl::StatusOr<ShardReceipt> WriteShard(uint64_t id, uint32_t shard,
                                          const ShardSnapshot& snapshot) const;
  // Makes the checkpoint count. REQUIRES: every shard of the placement has its receipt in it.
  absl::Status Seal(CheckpointManifest manifest) const;
  // Keeps those with a name, and of the others the newest `keep` sealed ones (at least one);
  // removes the rest, which it returns, and discarded ones.
  absl::StatusOr<std::vector<uint64_t>> Prune(int keep) const;

  // Manifests of sealed checkpoints, newest first; those that cannot be read are told in `notes`.
  absl::StatusOr<std::vector<CheckpointManifest>> List(std::vector<std::string>* notes) const;
  // The newest checkpoint that is sound from end to end; what was passed over is in its `notes`.
  // NOT_FOUND: there is no sealed checkpoint. DATA_LOSS: there are, and all are damaged.
  absl::StatusOr<LoadedCheckpoint> LoadNewest() const;
  absl::StatusOr<LoadedCheckpoint> Load(uint64_t id) const;
  // The newest with that name, or with the id that it says. NOT_FOUND: there is none.
  absl::StatusOr<uint64_t> Find(const std::string& id_or_name) const;
  // The largest id that is taken; 0: none is.
  absl::StatusOr<uint64_t> LastId() const;
  // Reads every checkpoint from end to end, newest first.
  absl::StatusOr<std::vector<CheckedCheckpoint>> Verify() const;

  const std::string& root() const { return root_; }

 private:
  const std::string root_;
};

// That a new checkpoint of that name would be the only one; empty: it needs none.
absl::Status CheckNewName(const CheckpointStore& store, const std::string& name);

}  // namespace psgd
