// How fast each codec is on one core, compared with memcpy of the same bytes in the same run.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/bench_row.h"
#include "common/status.h"
#include "compression/device_codec.h"

namespace psgd {

struct CodecBenchOptions {
  size_t elements = 25'000'000;
  size_t slice = size_t{1} << 20;   // elements of a slice; the last one is shorter
  int repeats = 7;                  // the best is compared with the best memcpy
  std::vector<std::string> codecs;  // by name, with all their variants; empty: all
  bool scalar = true;               // also measure the scalar twin
  DeviceCodecs* device = nullptr;   // also measure the twins on this device
};

// Returns two rows per codec (CODEC or CODEC-VARIANT) and backend, in fp32 gradient bytes a second:
//   CODEC/encode/BACKEND  gradient + residual to payload + residual, if it keeps one
//   CODEC/decode/BACKEND  payload checked, opened and added to weights block by block
// If there is a device, a codec with a twin there also has CODEC/encode/gpu (device_codec_bench.h).
// For factors see factors_bench.h. extra: "gbps_median", "wire_ratio" (fp32 bytes / payload bytes),
// "slices". A row with a wrong result is not timed: verified is false and gbps 0. An unknown codec
// name is an error.
absl::StatusOr<std::vector<BenchRow>> RunCodecBench(const CodecBenchOptions& options);

}  // namespace psgd
