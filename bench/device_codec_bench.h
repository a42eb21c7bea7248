// How fast a codec's twin on a device is, compared with copies within the device's memory in the
// same run.
#pragma once

#include <optional>
#include <vector>

#include "bench/codec_bench.h"
#include "compression/codec.h"

namespace psgd {

// Returns the row CODEC/encode/gpu; nothing if the codec has no twin. The row encodes all slices,
// including launches and the payloads' copies to the host. REQUIRES: options.device.
absl::StatusOr<std::optional<BenchRow>> MeasureOnDevice(const CodecConfig& config,
                                                        const Codec& codec,
                                                        const std::vector<float>& gradient,
                                                        const CodecBenchOptions& options);

}  // namespace psgd
