// Reads the weights of a shard from the server that leads the shard. Only the .cc includes gRPC.
#pragma once

#include <functional>
#include <string>

#include "common/bytes.h"
#include "common/clock.h"
#include "common/status.h"
#include "net/credentials.h"
#include "proto/peers.pb.h"

namespace psgd {

// `server`: its control-plane address. `credentials`: null if the run is not secured.
// DEADLINE_EXCEEDED: it took longer than `deadline`.
absl::Status ReadShardWeights(
    const std::string& server, const Credentials* credentials, const ShardWeightsRequest& request,
    Duration deadline,
    const std::function<absl::Status(uint32_t slice, const Bytes& values)>& take);

}  // namespace psgd
