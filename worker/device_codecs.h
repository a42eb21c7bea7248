// The codecs of the device that gradients lie on.
#pragma once

#include <memory>
#include <string>

#include "common/status.h"
#include "compression/device_codec.h"

namespace psgd {

// Loads the codecs for that device from the plugin of that name (see FindInPlugin).
absl::StatusOr<std::unique_ptr<DeviceCodecs>> LoadDeviceCodecs(const std::string& plugin,
                                                               const std::string& plugin_dir,
                                                               int device);

}  // namespace psgd
