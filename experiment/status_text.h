// The state of a run for people.
#pragma once

#include <string>
#include <vector>

#include "proto/checkpoint.pb.h"
#include "proto/control.pb.h"

namespace psgd {

// Of a running server: progress, then tables of shards, workers, evaluations and checkpoints.
std::string StatusText(const StatusReply& status);

// The tables that a run directory can fill as well; empty when there are none.
std::string EvaluationsText(const std::vector<EvalResult>& evaluations);
std::string CheckpointsText(const std::vector<CheckpointManifest>& manifests);

}  // namespace psgd
