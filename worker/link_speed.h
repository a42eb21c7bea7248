// What a link carries, measured by sending over it (compression.push: auto).
#pragma once

#include <functional>

#include "common/bytes.h"
#include "common/status.h"

namespace psgd {

struct LinkSpeed {
  double bytes_per_second = 0;
  double round_trip_seconds = 0;
};

// `seconds_for` sends a probe and returns how many seconds later the answer came. Probes grow until
// one takes long enough for a measurement, up to 4 MiB. All together have less than 40 MiB.
absl::StatusOr<LinkSpeed> MeasureLink(
    const std::function<absl::StatusOr<double>(const Bytes& probe)>& seconds_for);

}  // namespace psgd
