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

// All take the manifests of all checkpoints of a run, newest first. A later checkpoint knows the
// evaluation of an earlier one.

// Ids of training that was given up: the run went on from an earlier checkpoint. Nothing of them
// counts.
std::set<uint64_t> GivenUp(std::span<const CheckpointManifest> manifests);
// The evaluation of a checkpoint, which may have come while later ones were written; null: there is
// none.
const EvalResult* EvaluationOf(std::span<const CheckpointManifest> manifests, size_t index);
// The checkpoint with the best evaluation; of equals, the first. Nullopt: none has an evaluation.
std::optional<uint64_t> BestOf(std::span<const CheckpointManifest> manifests);
// Whether the run keeps it.
bool KeepsBest(std::span<const CheckpointManifest> manifests);
// What the run keeps for it: also the newest checkpoint of a whole epoch, as long as its evaluation
// is to come.
std::set<uint64_t> KeptForBest(std::span<const CheckpointManifest> manifests);

}  // namespace psgd
