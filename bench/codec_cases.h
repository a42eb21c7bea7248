// Shared by the benchmarks of codecs: the gradient, the slices, the codecs, the clock.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "bench/bench_row.h"
#include "common/clock.h"
#include "common/philox.h"
#include "common/status.h"
#include "compression/codec.h"

namespace psgd {

std::vector<float> RandomGradient(size_t elements);

// Returns the slice from `begin` on, at most `slice` elements long, of a large dense layer.
SliceShape BenchedSlice(size_t elements, size_t begin, size_t slice);
PhiloxKey BenchedKey(size_t slice);

// Returns every codec with its defaults (except a tau that fits the gradient), and the variants
// whose options change the work.
std::vector<CodecConfig> BenchedCodecs();
// Returns the codec's name and its options that are not the default.
std::string CaseName(const Codec& codec, const CodecConfig& config);
absl::Status CheckCodecNames(const std::vector<std::string>& wanted);
// If `wanted` is empty, all codecs are wanted.
bool Wanted(const Codec& codec, const std::vector<std::string>& wanted);

struct Timing {
  double best = 0;
  double median = 0;
};

template <typename Work>
Timing MeasureSeconds(int repeats, Work work) {
  std::vector<double> seconds;
  for (int i = 0; i < std::max(1, repeats); ++i) {
    const Time start = SteadyNow();
    work();
    seconds.push_back(Seconds(SteadyNow() - start));
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds.front(), seconds[seconds.size() / 2]};
}

// One measured way of a codec: a gradient of `bytes` in fp32, in `slices`.
struct CodecCase {
  std::string name;
  double bytes = 0;
  size_t slices = 0;
  double limit_gbps = 0;
  bool verified = false;  // otherwise nothing is timed
};
// Measures `work`. `payload_bytes()` tells afterwards how many bytes were sent.
template <typename Work, typename PayloadBytes>
BenchRow MeasureCodecCase(const CodecCase& measured, int repeats, Work work,
                          PayloadBytes payload_bytes) {
  BenchRow row;
  row.bench = "codec";
  row.name = measured.name;
  row.limit_gbps = measured.limit_gbps;
  row.verified = measured.verified;
  if (row.verified) {
    const Timing timing = MeasureSeconds(repeats, work);
    row.gbps = measured.bytes / timing.best / 1e9;
    row.extra["gbps_median"] = measured.bytes / timing.median / 1e9;
  }
  row.ratio = row.gbps / row.limit_gbps;
  row.extra["wire_ratio"] = measured.bytes / static_cast<double>(payload_bytes());
  row.extra["slices"] = static_cast<double>(measured.slices);
  return row;
}

}  // namespace psgd
