// Calls to other servers. Only the .cc includes gRPC.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/bytes.h"
#include "common/clock.h"
#include "common/status.h"
#include "net/credentials.h"
#include "proto/peers.pb.h"
#include "server/cluster/copy_core.h"
#include "server/cluster/server_effects.h"
#include "server/control/peer_stream.h"
#include "server/shard/quarantine.h"

namespace psgd {

// A stream to another server, on the side of the calling server.
template <typename Sent, typename Received>
class CalledStream : public PeerStream<Sent, Received> {
 public:
  // Why the stream ended. REQUIRES: Receive returned false.
  virtual absl::Status WhyEnded() = 0;
};

using RunStream = CalledStream<ServerSays, LeaderSays>;
using CopyStream = CalledStream<FollowingSays, LeadingSays>;

// `server`: a control-plane address. `credentials`: null if the run is not secured. UNAVAILABLE:
// nobody answers within `patience`.
absl::StatusOr<std::unique_ptr<RunStream>> CallRunLeader(const std::string& server,
                                                         const Credentials* credentials,
                                                         Duration patience);
absl::StatusOr<std::unique_ptr<CopyStream>> CallLeadingCopy(const std::string& server,
                                                            const Credentials* credentials,
                                                            Duration patience);

// What a server says first on these streams. `name`: the server's name, for people. `server`: its
// number.
ServerSays HelloToRunLeader(const std::string& name);
FollowingSays HelloToLeadingCopy(const std::string& run_id, uint32_t server, uint32_t shard);
// Later messages of a server, and of the server that leads the run.
ServerSays SaysOrderDone(uint32_t shard, const CopyCore::OrderDone& done);
ServerSays SaysQuarantined(const QuarantinedWorker& worker);
LeaderSays SaysOrder(const ShardOrderTo& order);
// UNAVAILABLE: another server leads the run; the message is its address.
LeaderSays SaysRefused(const absl::Status& why);

// Asks a server of the run for the run's config and, in a secured run, its keys.
absl::StatusOr<LeaderSays::Begin> AskForRun(const std::string& server,
                                            const Credentials* credentials, const std::string& name,
                                            Duration patience);

// Reads the weights of a shard from the server that leads the shard. DEADLINE_EXCEEDED: it took
// longer than `deadline`.
absl::Status ReadShardWeights(
    const std::string& server, const Credentials* credentials, const ShardWeightsRequest& request,
    Duration deadline,
    const std::function<absl::Status(uint32_t slice, const Bytes& values)>& take);

}  // namespace psgd
