// Names this machine among others, as far as shared memory reaches.
#pragma once

#include <string>

namespace psgd {

// The same for two processes that run on one machine, since one start of it, in one network
// namespace. Containers and emulated hosts with a network of their own count as machines.
std::string MachineId();

}  // namespace psgd
