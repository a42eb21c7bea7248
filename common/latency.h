// How long things take, counted in bins of half an octave from a microsecond up: few enough to
// travel with every report, narrow enough for a median and a 99th percentile.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "common/clock.h"
#include "common/metrics.h"

namespace psgd {

// Bin i has what took at most LatencyBound(i) and longer than LatencyBound(i - 1); the last one has
// everything beyond three minutes.
constexpr size_t kLatencyBins = 56;

inline double LatencyBound(size_t bin) { return 1e-6 * std::exp2(static_cast<double>(bin) / 2); }

inline size_t LatencyBin(Duration took) {
  const double microseconds = Seconds(took) * 1e6;
  if (microseconds <= 1) return 0;
  return std::min(kLatencyBins - 1, static_cast<size_t>(std::ceil(2 * std::log2(microseconds))));
}

// In seconds: at least `share` of what was counted took no longer. 0 when nothing was.
inline double LatencyQuantile(const CountHistogram& bins, double share) {
  return bins.count() == 0 ? 0 : LatencyBound(bins.Quantile(share));
}

}  // namespace psgd
