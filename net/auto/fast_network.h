// Whether this machine has a network on which UCX is faster than TCP.
#pragma once

#include <string>

namespace psgd {

// A port of an InfiniBand or RoCE adapter is up. `devices`: where Linux lists such adapters.
bool HasFastNetwork(const std::string& devices = "/sys/class/infiniband");

}  // namespace psgd
