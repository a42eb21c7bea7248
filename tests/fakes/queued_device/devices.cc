#include "tests/fakes/queued_device/devices.h"

#include <map>
#include <mutex>

namespace psgd::queued {
namespace {

struct Device {
  std::vector<Asked> asked;
  std::unique_ptr<Queues> queues;
};

// The plugin's only state. Its functions for kernels and for codecs must find the same device.
struct Devices {
  std::mutex mutex;
  std::map<int, std::shared_ptr<Device>> made;
};
Devices& All() {
  static Devices devices;
  return devices;
}

}  // namespace

QueuesPtr MakeDevice(int index) {
  {
    std::lock_guard lock(All().mutex);
    All().made.erase(index);
  }
  return FindDevice(index);
}

QueuesPtr FindDevice(int index) {
  std::lock_guard lock(All().mutex);
  std::shared_ptr<Device>& device = All().made[index];
  if (device == nullptr) {
    device = std::make_shared<Device>();
    device->queues =
        std::make_unique<Queues>(kStreams, static_cast<uint32_t>(index), &device->asked);
  }
  return {device, device->queues.get()};
}

Faults& GetFaults() {
  static Faults faults;
  return faults;
}

}  // namespace psgd::queued

extern "C" __attribute__((visibility("default"))) psgd::queued::Faults*
psgd_queued_device_faults() {
  return &psgd::queued::GetFaults();
}

extern "C" __attribute__((visibility("default"))) void psgd_queued_device_put(
    int device, int stream, const std::function<void()>* work) {
  psgd::queued::FindDevice(device)->Put(stream, psgd::queued::Asked::kLaunch, *work);
}

extern "C" __attribute__((visibility("default"))) void psgd_queued_device_asked(
    int device, std::vector<psgd::queued::Asked>* asked) {
  using psgd::queued::All;
  std::lock_guard lock(All().mutex);
  const auto found = All().made.find(device);
  if (found != All().made.end()) *asked = found->second->asked;
}
