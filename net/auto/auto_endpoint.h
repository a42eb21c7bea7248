// All ways to a shard: shared memory on its own machine; from others UCX where both machines have a
// fast network, else ZeroMQ over TCP.
#pragma once

#include <string>
#include <vector>

#include "net/transport.h"

namespace psgd {

// Listens on each way that this machine has. Whoever lacks one takes another.
StatusOrEndpoint ListenAuto(const std::string& address, const TransportOptions& options);
// Chooses the way to each address now. REQUIRES: a listener whose address names its machine is
// there.
StatusOrEndpoint ConnectAuto(const std::vector<std::string>& addresses,
                             const TransportOptions& options);

}  // namespace psgd
