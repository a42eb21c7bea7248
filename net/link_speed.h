// How fast this machine's links are.
#pragma once

#include <string>

namespace psgd {

// The speed of the network interface that has this host's address, in bytes a second each way. 0:
// the system does not know it, as for loopback, or the address is not of this machine.
double LinkSpeedOf(const std::string& host);
// The speed of the interface that has this folder in /sys/class/net. 0: not known.
double LinkSpeedIn(const std::string& folder);

}  // namespace psgd
