// DeviceCodecs whose device is this host: HostQueue runs the kernels' own sources.
#pragma once

#include <memory>

#include "compression/device_codec.h"

namespace psgd::codec_test {

// `backwards`: see HostQueue.
std::unique_ptr<DeviceCodecs> MakeEmulatedCodecs(bool backwards);

}  // namespace psgd::codec_test
