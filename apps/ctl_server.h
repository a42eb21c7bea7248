// How ps-ctl reaches the server of a run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/etcd_arguments.h"
#include "apps/tls_arguments.h"
#include "worker/control_client.h"

namespace psgd {

// Where the server is that leads the run, with those that follow, as etcd says, if it is to be
// asked.
absl::Status FindServer(const EtcdArguments& etcd, const TlsArguments& tls, std::string* server);
// Makes sure that the server is there, so that one that is not is found out soon.
absl::StatusOr<StatusReply> ReachServer(const std::string& server, const TlsArguments& tls);
// For calls that take their time.
absl::StatusOr<std::unique_ptr<ControlClient>> ConnectServer(const std::string& server,
                                                             const TlsArguments& tls);

// "0=2": shard 0 to server 2.
absl::StatusOr<RebalanceRequest> ParseMoves(const std::vector<std::string>& moves);
std::string OwnersText(const RebalanceReply& reply);

}  // namespace psgd
