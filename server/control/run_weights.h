// The weights of a run, read from all servers that lead its shards.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "net/credentials.h"
#include "proto/control.pb.h"
#include "proto/peers.pb.h"
#include "server/cluster/run_leader.h"
#include "server/control/copy_set.h"

namespace psgd {

// The model of a run, and where its weights are.
struct RunModel {
  WeightsChunk first;  // the model and its config
  Placement placement;
  std::vector<std::string> servers;  // by shard; empty: this server
};

// `leader`: null: this server does not lead the run.
absl::StatusOr<RunModel> ModelOf(const RunLeader* leader);

// Thread-safe.
struct RunWeights {
  CopySet& copies;  // of this server
  std::string run_id;
  const Credentials* credentials;  // null: the run is not secured
  Duration deadline;               // to read a shard from another server

  absl::Status Send(const RunModel& model,
                    const std::function<absl::Status(const WeightsChunk&)>& send) const;
  // The weights of a shard of this server.
  absl::Status SendShard(const ShardWeightsRequest& request,
                         const std::function<absl::Status(const ShardWeightsChunk&)>& send) const;
};

}  // namespace psgd
