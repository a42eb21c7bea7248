// The state of a run for people.
#pragma once

#include <string>
#include <vector>

#include "proto/checkpoint.pb.h"
#include "proto/control.pb.h"

namespace psgd {

// Of a running server: progress, then tables of shards, workers, evaluations and checkpoints.
std::string StatusText(const StatusReply& status);

// Every field of it, by its name in proto/; null: it was not measured yet.
std::string StatusJson(const StatusReply& status);
// Every field of any message.
std::string MessageJson(const google::protobuf::Message& message);

// The tables that a run directory can fill as well; empty when there are none.
std::string EvaluationsText(const std::vector<EvalResult>& evaluations);
std::string CheckpointsText(const std::vector<CheckpointManifest>& manifests);

}  // namespace psgd
