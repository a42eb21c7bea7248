// Counts durations in bins of half an octave, from one microsecond up. The bins are few enough to
// send with every report, and narrow enough for a median and a 99th percentile.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "common/clock.h"
#include "common/metrics.h"

namespace psgd {

// Bin i counts durations above LatencyBound(i - 1) and up to LatencyBound(i). The last bin counts
// everything beyond three minutes.
constexpr size_t kLatencyBins = 56;

inline double LatencyBound(size_t bin) { return 1e-6 * std::exp2(static_cast<double>(bin) / 2); }

inline size_t LatencyBin(Duration took) {
  const double microseconds = Seconds(took) * 1e6;
  if (microseconds <= 1) return 0;
  return std::min(kLatencyBins - 1, static_cast<size_t>(std::ceil(2 * std::log2(microseconds))));
}

// Returns seconds: at least `share` of the counted durations were no longer. 0 when `bins` is
// empty.
inline double LatencyQuantile(const CountHistogram& bins, double share) {
  return bins.count() == 0 ? 0 : LatencyBound(bins.Quantile(share));
}

}  // namespace psgd
