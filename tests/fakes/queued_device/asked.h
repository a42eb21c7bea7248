// What a host asked of a queued device, in that order: for tests of what it waits for, and when.
#pragma once

#include <cstdint>
#include <vector>

namespace psgd::queued {

// The device's streams.
inline constexpr int kKernels = 0, kDownloads = 1, kUploads = 2, kCodecs = 3, kWeights = 4,
                     kStreams = 5;

struct Asked {
  enum Kind {
    kRun,      // the step or evaluation whose kernels follow
    kLaunch,   // work on the stream
    kCopyIn,   // from the host, on the stream
    kCopyOut,  // to the host
    kSetEvent,
    kAwaitEvent,     // the stream waits for an event of another
    kWaitForEvent,   // the host waits for an event of the stream
    kWaitForStream,  // the host waits for all that was put on the stream
    kWaitForAll,     // the host waits for the whole device, as it does where memory is freed
  };
  Kind kind = kRun;
  int stream = 0;
  uint64_t event = 0;  // its number, of what concerns one
};

// What a test may have the devices of a process do wrong.
struct Faults {
  bool recorded_downloads = false;  // one that is recorded is an error
};

// What the plugin exports as `psgd_queued_device_faults`.
using FaultsFunction = Faults* (*)();

// What the plugin exports as `psgd_queued_device_asked`: everything that was asked of the device,
// so far, since it was last made.
using AskedFunction = void (*)(int device, std::vector<Asked>* asked);

}  // namespace psgd::queued
