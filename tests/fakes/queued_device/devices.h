// The devices of a process, each with its streams and a trace of the calls to it.
#pragma once

#include <memory>

#include "tests/fakes/queued_device/queues.h"

namespace psgd::queued {

using QueuesPtr = std::shared_ptr<Queues>;
using EventPtr = std::shared_ptr<Event>;

// Makes the device anew, with an empty trace.
QueuesPtr MakeDevice(int index);
// The device that was made last for `index`; made now, if there is none.
QueuesPtr FindDevice(int index);

// The faults that are set now.
Faults& GetFaults();

}  // namespace psgd::queued
