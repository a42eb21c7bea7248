// Names this machine among others, as far as shared memory reaches.
#pragma once

#include <string>

namespace psgd {

// The name is the same for two processes that run on one machine, in one network namespace, without
// a restart of the machine between them. Containers and emulated hosts with a network of their own
// count as machines.
std::string MachineId();

}  // namespace psgd
