// Shows the state of a run to people.
#pragma once

#include <string>
#include <vector>

#include "proto/checkpoint.pb.h"
#include "proto/control.pb.h"

namespace psgd {

// Describes a running server: progress, then tables of shards, workers, evaluations and
// checkpoints.
std::string StatusText(const StatusReply& status);

// Returns every field under its name in proto/. Null: not measured yet.
std::string StatusJson(const StatusReply& status);
// Returns every field of any message.
std::string MessageJson(const google::protobuf::Message& message);

// Tables that a run directory can fill as well; empty if there is nothing to show.
std::string EvaluationsText(const std::vector<EvalResult>& evaluations);
std::string CheckpointsText(const std::vector<CheckpointManifest>& manifests);

}  // namespace psgd
