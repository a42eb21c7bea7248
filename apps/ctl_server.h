// Finds and reaches the server of a run, and makes its requests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/etcd_arguments.h"
#include "apps/tls_arguments.h"
#include "worker/control_client.h"

namespace psgd {

// Sets `server` to the addresses of the run's servers, the leader first, as etcd has them. Does
// nothing if etcd is not given.
absl::Status FindServer(const EtcdArguments& etcd, const TlsArguments& tls, std::string* server);
// Asks the server for its status, with a short deadline, to detect a missing server soon.
absl::StatusOr<StatusReply> ReachServer(const std::string& server, const TlsArguments& tls);
// Returns a client with a long deadline.
absl::StatusOr<std::unique_ptr<ControlClient>> ConnectServer(const std::string& server,
                                                             const TlsArguments& tls);

// Parses "learning_rate=0.01".
absl::StatusOr<SetHyperRequest> ParseAssignments(const std::vector<std::string>& assignments);

// Parses "0=2": shard 0 moves to server 2.
absl::StatusOr<RebalanceRequest> ParseMoves(const std::vector<std::string>& moves);
std::string OwnersText(const RebalanceReply& reply);

}  // namespace psgd
