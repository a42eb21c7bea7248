// Which elements to sample, to guess a magnitude that about a wanted number of elements reach; see
// select.h. No Abseil: nvcc reads this.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "common/host_device.h"

namespace psgd {

PS_HD inline uint32_t MagnitudeBits(float value) {
  return std::bit_cast<uint32_t>(value) & 0x7FFFFFFFu;
}

// Bits of the least magnitude that is not zero.
inline constexpr uint32_t kLeastNotZero = 1;

inline constexpr size_t kSampleRun = 16;      // neighbors sampled together: one cache line
inline constexpr int kSampleShift = 31 - 13;  // magnitude bits that a bin ignores: bins 3 % wide
inline constexpr size_t kSampleBins = 1 << 13;

// Whether sampling pays. Small slices, and those that keep more than 1/16, are searched whole.
inline constexpr size_t kLeastSampled = 16384;  // elements
constexpr bool WorthSampling(size_t keep, size_t elements) {
  return elements >= kLeastSampled && keep <= elements / 16;
}
// Sampled selection accepts between LeastOf and MostOf elements.
PS_HD constexpr size_t MostOf(size_t keep) { return keep + keep / 3; }
PS_HD constexpr size_t LeastOf(size_t keep) { return keep - keep / 2; }

struct SamplePlan {
  size_t period = 0;  // elements; one run is sampled from each period
  size_t runs = 0;
  size_t wanted = 0;  // elements of the sample that reach the magnitude

  // Runs vary their place within the period, so that not all of them hit the same matrix columns.
  PS_HD size_t Begin(size_t run) const {
    const auto places = static_cast<uint32_t>(period / kSampleRun);
    const uint32_t place = (static_cast<uint32_t>(run) * 0x9E3779B9u >> 16) % places;
    return run * period + place * kSampleRun;
  }
};

// Fewer than kSampleRun elements have no runs. REQUIRES: elements > 0.
inline SamplePlan PlanSample(size_t elements, size_t keep, bool enough) {
  constexpr size_t kLongest = 1024, kLeastRuns = 256;
  SamplePlan plan;
  plan.period = std::clamp(elements / kLeastRuns, kSampleRun, kLongest);
  plan.runs = elements / plan.period;
  const double share = static_cast<double>(keep) * static_cast<double>(plan.runs * kSampleRun) /
                       static_cast<double>(elements);
  // Four standard deviations more than the share of the sample, so that a miss is rare.
  plan.wanted = enough ? static_cast<size_t>(share + 4 * std::sqrt(share)) + 4
                       : std::max<size_t>(1, static_cast<size_t>(std::lround(share)));
  return plan;
}

}  // namespace psgd
