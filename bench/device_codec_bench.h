// How fast a codec's twin on a device is, compared with what bounds it: copies within the device's
// memory, or copies of its payloads to the host, whichever is slower. Both are measured in the same
// run.
#pragma once

#include <optional>
#include <vector>

#include "bench/codec_bench.h"
#include "compression/codec.h"

namespace psgd {

// Returns the row CODEC/encode/gpu; nothing if the codec has no twin. The row encodes all slices,
// including launches and the payloads' copies to the host. limit_gbps is the smaller of two numbers
// in `extra`, both in fp32 gradient bytes a second: "memory_gbps", copies of as many bytes as the
// gradient has within the memory, and "bus_gbps", copies to the host times the payload's
// wire_ratio. REQUIRES: options.device.
absl::StatusOr<std::optional<BenchRow>> MeasureOnDevice(const CodecConfig& config,
                                                        const Codec& codec,
                                                        const std::vector<float>& gradient,
                                                        const CodecBenchOptions& options);

}  // namespace psgd
