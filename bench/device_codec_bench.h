// How fast a codec's twin on a device is, against copies within the device's memory in the same
// run.
#pragma once

#include <optional>
#include <vector>

#include "bench/codec_bench.h"
#include "compression/codec.h"

namespace psgd {

// The row CODEC/encode/gpu; none where the codec has no twin. It encodes all slices, launches and
// payloads' way to the host included. REQUIRES: options.device.
absl::StatusOr<std::optional<BenchRow>> MeasureOnDevice(const CodecConfig& config,
                                                        const Codec& codec,
                                                        const std::vector<float>& gradient,
                                                        const CodecBenchOptions& options);

}  // namespace psgd
