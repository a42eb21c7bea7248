// Both ways to a shard: shared memory on its own machine, ZeroMQ over TCP from others.
#pragma once

#include <string>
#include <vector>

#include "net/transport.h"

namespace psgd {

StatusOrEndpoint ListenAuto(const std::string& address, const TransportOptions& options);
// Chooses the way to each address now. REQUIRES: a listener whose address names its machine is
// there.
StatusOrEndpoint ConnectAuto(const std::vector<std::string>& addresses,
                             const TransportOptions& options);

}  // namespace psgd
