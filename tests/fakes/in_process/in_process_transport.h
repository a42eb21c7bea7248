// A transport within one process, for tests of what is above transports.
#pragma once

#include <memory>

#include "net/transport.h"

namespace psgd {

// Connects endpoints by any name.
std::unique_ptr<Transport> MakeInProcessTransport(const TransportOptions& options);

}  // namespace psgd
