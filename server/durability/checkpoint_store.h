// Checkpoints on disk: consistent cuts of all shards, sealed by the coordinator.
//
//   ROOT/checkpoint-000000000007/shard-0/   a RocksDB database of its own, written once
//   ROOT/checkpoint-000000000007/manifest   written last: seals the checkpoint
//   ROOT/discarded-000000000008/            unsealed or damaged; goes with the next Prune
//
// Every checkpoint has its own databases; there is no growing database for each shard. So a torn
// file spoils only one checkpoint, to prune is to remove a folder, and a checkpoint can be verified
// or copied alone. A database gets one sorted table file (no log, no memtable: a write is one pass
// over the data), is synced, and is never opened for writing again.
//
// A reader checks everything. The manifest has its own checksum. It lists every file of every shard
// with size and checksum, which are compared before RocksDB sees the files. Every value has a
// checksum over its key and contents (checkpoint_format.h). The whole must be complete and fit the
// model.
#pragma once

#include <cstdint>
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

// The result of checking one checkpoint.
struct CheckedCheckpoint {
  uint64_t id = 0;
  std::optional<CheckpointManifest> manifest;  // set if it can be read
  bool sealed = true;                          // false: it was never completed, and does not count
  absl::Status status;                         // what is damaged, and where
};

// A name that a checkpoint may have: [A-Za-z0-9._-]{1,64} and not a number, which would be an id,
// nor kBest.
absl::Status CheckName(const std::string& name);

// The folder with a run's checkpoints. Only Begin, WriteShard, Seal, Discard and Prune write; the
// other calls change no file and need no lock. Thread-safe if one process writes, each shard is
// written once for each checkpoint, and Begin comes before WriteShard, and WriteShard before Seal.
class CheckpointStore {
 public:
  explicit CheckpointStore(std::string root) : root_(std::move(root)) {}

  // Makes room for checkpoint `id`. Folders with this or a later id are unsealed or damaged (this
  // run did not load them) and are renamed to discarded-*.
  absl::Status Begin(uint64_t id) const;
  // Writes and syncs one shard's part.
  absl::StatusOr<ShardReceipt> WriteShard(uint64_t id, uint32_t shard,
                                          const ShardSnapshot& snapshot) const;
  // Makes the checkpoint count. REQUIRES: `manifest` has a receipt for every shard of the
  // placement.
  absl::Status Seal(CheckpointManifest manifest) const;
  // Removes the parts of a checkpoint, unless it is sealed.
  absl::Status Discard(uint64_t id) const;
  // Keeps named checkpoints, and the newest `keep` sealed checkpoints without a name (at least
  // one). With durability.keep_best it also keeps the checkpoint with the best evaluation, and the
  // newest one of a whole epoch, whose evaluation may still come. Removes discarded folders and all
  // other checkpoints, and returns the ids of these checkpoints.
  absl::StatusOr<std::vector<uint64_t>> Prune(int keep) const;

  // Manifests of sealed checkpoints, newest first. `notes` names manifests that cannot be read.
  absl::StatusOr<std::vector<CheckpointManifest>> List(std::vector<std::string>* notes) const;
  // The newest checkpoint that is sound from end to end. Its notes name the skipped checkpoints.
  // NOT_FOUND: there is no sealed checkpoint. DATA_LOSS: all sealed checkpoints are damaged.
  absl::StatusOr<LoadedCheckpoint> LoadNewest() const;
  absl::StatusOr<LoadedCheckpoint> Load(uint64_t id) const;
  // The newest checkpoint with that name, or the checkpoint with that id; kBest: the one with the
  // best evaluation. NOT_FOUND: there is none.
  absl::StatusOr<uint64_t> Find(const std::string& id_or_name) const;
  // The evaluation of that checkpoint's weights, which a later checkpoint may hold; nullopt: none.
  absl::StatusOr<std::optional<EvalResult>> EvaluationOf(uint64_t id) const;
  // The checkpoint that durability.keep_best keeps; nullopt: there is none.
  absl::StatusOr<std::optional<uint64_t>> KeptBest() const;
  // The largest used id; 0: no id is used.
  absl::StatusOr<uint64_t> LastId() const;
  // The bytes of all checkpoints. The number grows while one is written.
  uint64_t BytesOnDisk() const;
  // Reads every checkpoint from end to end, newest first.
  absl::StatusOr<std::vector<CheckedCheckpoint>> Verify() const;

  const std::string& root() const { return root_; }

 private:
  const std::string root_;
};

// Checks that no checkpoint has the name yet. An empty name is always OK.
absl::Status CheckNewName(const CheckpointStore& store, const std::string& name);

}  // namespace psgd
