// Writes the checkpoints of a run that this server leads: each shard's part as it comes, then the
// seal.
#pragma once

#include <cstdint>
#include <optional>

#include "common/log.h"
#include "common/status.h"
#include "proto/checkpoint.pb.h"
#include "server/cluster/server_effects.h"
#include "server/cluster/unsealed_checkpoint.h"
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

  // Nothing: the part is passed over. `cut`: the part.
  std::optional<absl::StatusOr<ShardReceipt>> Write(const effect::WritePart& part,
                                                    const ShardCut& cut);
  // Makes the checkpoint count, and removes old ones.
  absl::StatusOr<SealedCheckpoint> Seal(const CheckpointManifest& manifest);
  void Discard(const effect::DiscardParts& parts);

 private:
  const CheckpointStore* const store_;
  const int keep_;
  FailpointPlan* const failpoint_;
  const Log log_;
  UnsealedCheckpoint unsealed_;
};

}  // namespace psgd
