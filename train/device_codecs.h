// The codecs of the device that a network computes on.
#pragma once

#include <memory>

#include "common/status.h"
#include "compression/device_codec.h"
#include "engine/runtime/network.h"

namespace psgd {

// From the plugin of the network's backend, for its device.
absl::StatusOr<std::unique_ptr<DeviceCodecs>> LoadDeviceCodecs(const NetworkOptions& network);

}  // namespace psgd
