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

// `seconds_for` sends a probe and says after how many seconds it was answered. Probes grow until
// one takes long enough to tell, to 4 MiB at most; all together are less than 40 MiB.
absl::StatusOr<LinkSpeed> MeasureLink(
    const std::function<absl::StatusOr<double>(const Bytes& probe)>& seconds_for);

}  // namespace psgd
