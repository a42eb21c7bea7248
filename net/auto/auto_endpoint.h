// Both ways to a shard: shared memory on its own machine; from others UCX if the listener has a
// fast network, else ZeroMQ over TCP.
#pragma once

#include <string>
#include <vector>

#include "net/transport.h"

namespace psgd {

StatusOrEndpoint ListenAuto(const std::string& address, const TransportOptions& options);
// Chooses the way to each address now. FAILED_PRECONDITION: other machines' listeners speak UCX in
// part, or this machine has no UCX. REQUIRES: a listener whose address names its machine is there.
StatusOrEndpoint ConnectAuto(const std::vector<std::string>& addresses,
                             const TransportOptions& options);

}  // namespace psgd
