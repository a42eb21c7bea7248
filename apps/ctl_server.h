// Finds and reaches the server of a run, and makes its requests.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/etcd_arguments.h"
#include "apps/tls_arguments.h"
#include "worker/control_client.h"

namespace psgd {

// Where a run's servers are.
struct RunServers {
  std::string addresses;  // HOST:PORT, or several with commas
  // Where they are by now, as ControlClientOptions::find. Null: etcd is not asked.
  std::function<absl::StatusOr<std::vector<std::string>>()> find;
};

// Sets `servers` to what etcd has, the leader first. Does nothing if etcd is not given.
absl::Status FindServers(const EtcdArguments& etcd, const TlsArguments& tls, RunServers* servers);
// Asks the run for its status, with a short deadline, to detect a missing server soon.
absl::StatusOr<StatusReply> ReachServer(const RunServers& servers, const TlsArguments& tls);
// Returns a client with a long deadline.
absl::StatusOr<std::unique_ptr<ControlClient>> ConnectServer(const RunServers& servers,
                                                             const TlsArguments& tls);

// Parses "learning_rate=0.01".
absl::StatusOr<SetHyperRequest> ParseAssignments(const std::vector<std::string>& assignments);

// Parses "0=2": shard 0 moves to server 2.
absl::StatusOr<RebalanceRequest> ParseMoves(const std::vector<std::string>& moves);
std::string OwnersText(const RebalanceReply& reply);

}  // namespace psgd
