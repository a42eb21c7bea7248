// The coordinator's commands to the shards. Every shard carries out a command before the
// coordinator answers the worker that caused it, so no worker is ahead of what the shards know.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "proto/control.pb.h"
#include "proto/model.pb.h"
#include "server/shard/given_weights.h"
#include "server/shard/loaded_checkpoint.h"

namespace psgd {

// The model is known: make the slices, fresh or from a checkpoint.
struct InstallModel {
  std::shared_ptr<const ModelSpec> model;
  std::shared_ptr<const Placement> placement;
  std::shared_ptr<const LoadedCheckpoint> checkpoint;  // null: initial weights
  HyperParameters hyper;
  std::shared_ptr<const GivenWeights> given =
      nullptr;  // values of parameters that start from a file
};

// A worker may speak from now on; older incarnations of it may not.
struct AdmitWorker {
  WorkerKey key;
};

// A worker left or its lease ran out: it no longer holds anybody back.
struct RemoveWorker {
  WorkerKey key;
};

// A new stretch of clocks: its workers take part from its first clock on.
struct BeginSegment {
  Segment segment;
};

// Take a checkpoint of exactly the pushes up to `clock`: hold later ones back until it is taken.
struct TakeCheckpoint {
  uint64_t id = 0;
  uint64_t clock = 0;
  std::vector<WorkerKey> savers;  // workers whose state belongs to the checkpoint
};

struct ChangeHyper {
  HyperParameters hyper;
};

using ShardCommand = std::variant<InstallModel, AdmitWorker, RemoveWorker, BeginSegment,
                                  TakeCheckpoint, ChangeHyper>;

}  // namespace psgd
