// Writes the checkpoints of a run that this server leads: each shard's part as it comes, then the
// seal.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "common/log.h"
#include "common/status.h"
#include "proto/checkpoint.pb.h"
#include "server/cluster/server_effects.h"
#include "server/durability/checkpoint_store.h"
#include "server/durability/failpoint.h"
#include "server/shard/shard_core.h"

namespace psgd {

// Not thread-safe: belongs to the thread that writes to the disk.
class CheckpointWriter {
 public:
  // `keep`: how many checkpoints without a name stay. `failpoint`: null: there is none.
  CheckpointWriter(const CheckpointStore* store, int keep, FailpointPlan* failpoint, Log log)
      : store_(store), keep_(keep), failpoint_(failpoint), log_(std::move(log)) {}

  // A part that is written already is not written again. Nothing: the part's checkpoint was given
  // up.
  std::optional<absl::StatusOr<ShardReceipt>> Write(uint32_t shard, const ShardCut& cut);
  // Makes the checkpoint count, and removes old ones.
  absl::StatusOr<SealedCheckpoint> Seal(const CheckpointManifest& manifest);
  // The checkpoint is over. If it was not sealed, its parts must not take the room of the weights.
  void Done(uint64_t checkpoint);

 private:
  const CheckpointStore* const store_;
  const int keep_;
  FailpointPlan* const failpoint_;
  const Log log_;
  uint64_t id_ = 0;  // the checkpoint that is being written, and its parts
  std::map<uint32_t, ShardReceipt> written_;
  bool sealed_ = false;
};

}  // namespace psgd
