// How ps-ctl reaches the server of a run.
#pragma once

#include <memory>
#include <string>

#include "apps/etcd_arguments.h"
#include "apps/tls_arguments.h"
#include "worker/control_client.h"

namespace psgd {

// Where the server is that leads the run, with those that follow, as etcd says.
absl::StatusOr<std::string> ServerKnownToEtcd(const EtcdArguments& etcd, const TlsArguments& tls);
// Makes sure that the server is there, so that one that is not is found out soon.
absl::StatusOr<StatusReply> ReachServer(const std::string& server, const TlsArguments& tls);
// For calls that take their time.
absl::StatusOr<std::unique_ptr<ControlClient>> ConnectServer(const std::string& server,
                                                             const TlsArguments& tls);

}  // namespace psgd
