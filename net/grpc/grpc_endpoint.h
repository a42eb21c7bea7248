// The gRPC transport: each connection is one bidirectional stream of wire-format messages.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "net/transport.h"

namespace psgd {

absl::StatusOr<std::unique_ptr<Endpoint>> ListenGrpc(const std::string& address,
                                                     const TransportOptions& options);
absl::StatusOr<std::unique_ptr<Endpoint>> ConnectGrpc(const std::vector<std::string>& addresses,
                                                      const TransportOptions& options);

}  // namespace psgd
