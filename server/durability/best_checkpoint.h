// Which checkpoint has the best evaluation: durability.keep_best keeps it, and "best" names it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>

#include "proto/checkpoint.pb.h"
#include "proto/control.pb.h"

namespace psgd {

// The name of the checkpoint with the best evaluation, wherever a checkpoint's name is taken.
inline constexpr char kBest[] = "best";

// All functions take the manifests of all checkpoints of a run, newest first. A later checkpoint
// may have the evaluation of an earlier one.

// The ids of checkpoints of training that was given up: the run went on from an earlier checkpoint.
// They do not count.
std::set<uint64_t> GivenUp(std::span<const CheckpointManifest> manifests);
// The evaluation of a checkpoint, which may have come while later ones were written; null: there is
// none.
const EvalResult* EvaluationOf(std::span<const CheckpointManifest> manifests, size_t index);
// The checkpoint with the best evaluation; of equals, the first. Nullopt: none has an evaluation.
std::optional<uint64_t> BestOf(std::span<const CheckpointManifest> manifests);
// Whether the run keeps the checkpoint with the best evaluation.
bool KeepsBest(std::span<const CheckpointManifest> manifests);
// The checkpoints that the run keeps for this: the best one, and also the newest one of a whole
// epoch, as long as its evaluation is still to come.
std::set<uint64_t> KeptForBest(std::span<const CheckpointManifest> manifests);

}  // namespace psgd
