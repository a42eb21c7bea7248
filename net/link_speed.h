// How fast this machine's links are.
#pragma once

#include <string>

namespace psgd {

// Bytes a second, each way, of the network interface that has this host's address, as the system
// knows them. 0: it does not, as of loopback, or the address is not of this machine.
double LinkSpeedOf(const std::string& host);
// Of the interface with this folder in /sys/class/net.
double LinkSpeedIn(const std::string& folder);

}  // namespace psgd
