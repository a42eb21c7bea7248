// The devices of a process, each with its streams and the trace of what was asked of it.
#pragma once

#include <memory>

#include "tests/fakes/queued_device/queues.h"

namespace psgd::queued {

using QueuesPtr = std::shared_ptr<Queues>;
using EventPtr = std::shared_ptr<Event>;

// Anew; what was asked of it before is forgotten.
QueuesPtr MakeDevice(int index);
// The one that was made last.
QueuesPtr FindDevice(int index);

// Those that are asked for now.
Faults& GetFaults();

}  // namespace psgd::queued
