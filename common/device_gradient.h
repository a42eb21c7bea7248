// Where a step's gradient lies on a device: what an engine hands out and a codec's twin takes.
#pragma once

namespace psgd {

struct DeviceGradient {
  const float* gradient = nullptr;  // device memory
  const float* value = nullptr;     // of the parameter, likewise
  void* ready = nullptr;            // the device's event after which the gradient is final
};

}  // namespace psgd
