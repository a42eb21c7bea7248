// All ways to a shard: shared memory on its own machine; from others UCX where both machines have a
// fast network, else ZeroMQ over TCP.
#pragma once

#include <memory>

#include "net/transport.h"

namespace psgd {

// It listens on each way that this machine has; whoever lacks one takes another. Connect chooses
// the way to each address; it takes ZeroMQ at once to a host from which a connection before got no
// answer over UCX. REQUIRES of Connect: a listener whose address names its machine is there.
std::unique_ptr<Transport> MakeAutoTransport(const TransportOptions& options);

}  // namespace psgd
