// All ways to a shard: shared memory on its own machine; from others UCX where both machines have a
// fast network, else ZeroMQ over TCP.
#pragma once

#include <memory>

#include "net/transport.h"

namespace psgd {

// A listener listens on each way that its machine has. Connect chooses a way to each address that
// both machines have. It takes ZeroMQ at once to a host from which an earlier connection got no
// answer over UCX. REQUIRES of Connect: if an address names a machine, its listener is there.
std::unique_ptr<Transport> MakeAutoTransport(const TransportOptions& options);

}  // namespace psgd
