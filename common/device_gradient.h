// The place of a step's gradient on a device. An engine gives it to the CUDA twin of a codec.
#pragma once

namespace psgd {

struct DeviceGradient {
  const float* gradient = nullptr;  // device memory
  const float* value = nullptr;     // the parameter, in device memory
  void* ready = nullptr;            // a device event; after it the gradient is final
};

}  // namespace psgd
