// What the benchmarks of codecs have in common: the gradient, the slices, the codecs, the clock.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/philox.h"
#include "common/status.h"
#include "compression/codec.h"

namespace psgd {

std::vector<float> RandomGradient(size_t elements);

// The slice from `begin` on of at most so many elements: one of a large dense layer.
SliceShape BenchedSlice(size_t elements, size_t begin, size_t slice);
PhiloxKey BenchedKey(size_t slice);

// Every codec with its defaults (but a tau that fits the gradient), and those options that change
// what is done.
std::vector<CodecConfig> BenchedCodecs();
// The codec's name, and what of its options is not the default.
std::string CaseName(const Codec& codec, const CodecConfig& config);
absl::Status CheckCodecNames(const std::vector<std::string>& wanted);
// `wanted` empty: all are.
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

}  // namespace psgd
