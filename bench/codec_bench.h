// How fast each codec is on one core, against memcpy of the same bytes in the same run.
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
  bool scalar = true;               // also the scalar twin
  DeviceCodecs* device = nullptr;   // also the twins on that device
};

// Two rows a codec (CODEC or CODEC-VARIANT) and backend, in bytes of fp32 gradient a second:
//   CODEC/encode/BACKEND  gradient + residual to payload + residual, where it keeps one
//   CODEC/decode/BACKEND  payload checked, opened and added to weights block by block
// and where there is a device, of a codec with a twin there, CODEC/encode/gpu
// (device_codec_bench.h). Of factors see factors_bench.h. extra: "gbps_median", "wire_ratio" (fp32
// bytes / payload bytes), "slices". A row whose result was wrong is not timed: verified is false
// and gbps 0. An unknown codec name is an error.
absl::StatusOr<std::vector<BenchRow>> RunCodecBench(const CodecBenchOptions& options);

}  // namespace psgd
