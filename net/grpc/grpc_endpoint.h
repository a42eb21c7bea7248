// The gRPC transport: each connection is one bidirectional stream of wire-format messages.
#pragma once

#include <string>
#include <vector>

#include "net/transport.h"

namespace psgd {

StatusOrEndpoint ListenGrpc(const std::string& address, const TransportOptions& options);
StatusOrEndpoint ConnectGrpc(const std::vector<std::string>& addresses,
                             const TransportOptions& options);

}  // namespace psgd
