// The calls of a host to a queued device, in their order. Tests check the host's waits.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace psgd::queued {

// The device's streams.
inline constexpr int kKernels = 0, kDownloads = 1, kUploads = 2, kCodecs = 3, kWeights = 4,
                     kStreams = 5;

struct Asked {
  enum Kind {
    kRun,      // begins a step or evaluation; its kernels follow
    kLaunch,   // work on the stream
    kCopyIn,   // from the host, on the stream
    kCopyOut,  // to the host, on the stream
    kSetEvent,
    kAwaitEvent,     // the stream waits for an event of another stream
    kWaitForEvent,   // the host waits for an event of the stream
    kWaitForStream,  // the host waits for all work on the stream
    kWaitForAll,     // the host waits for the whole device, as for freeing memory
  };
  Kind kind = kRun;
  int stream = 0;
  uint64_t event = 0;  // number of the event, if the call has one
};

// Faults that tests inject into all devices of the process.
struct Faults {
  bool recorded_downloads = false;       // recording a download is an error
  const void* foreign_memory = nullptr;  // it is not of the device
};

// The type of `psgd_queued_device_faults`, which the plugin exports.
using FaultsFunction = Faults* (*)();

// The type of `psgd_queued_device_put`, which the plugin exports. It puts a program's own work on a
// stream of the device.
using PutFunction = void (*)(int device, int stream, const std::function<void()>* work);

// The type of `psgd_queued_device_asked`, which the plugin exports. It returns all calls since the
// device was last made.
using AskedFunction = void (*)(int device, std::vector<Asked>* asked);

}  // namespace psgd::queued
