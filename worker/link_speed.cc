#include "worker/link_speed.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/median.h"
#include "common/philox.h"

namespace psgd {
namespace {

constexpr size_t kFirst = 16u << 10;
constexpr size_t kMost = 4u << 20;
constexpr double kTelling = 0.03;        // seconds
constexpr int kTimes = 3;                // that a probe whose time counts is sent
constexpr double kLeastSeconds = 1e-6;   // of sending: no clock tells less apart

// Bytes that nothing on the way can make fewer.
Bytes Noise(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t at = 0; at < size; at += sizeof(PhiloxBlock)) {
    const PhiloxBlock block = Philox({}, at, 0);
    std::memcpy(bytes.data() + at, block.word, std::min(sizeof block.word, size - at));
  }
  return Bytes::Adopt(std::move(bytes));
}

}  // namespace

absl::StatusOr<LinkSpeed> MeasureLink(
    const std::function<absl::StatusOr<double>(const Bytes& probe)>& seconds_for) {
  LinkSpeed speed;
  std::vector<double> seconds(kTimes);
  for (double& each : seconds) {
    PSGD_ASSIGN_OR_RETURN(each, seconds_for(Bytes()));
  }
  speed.round_trip_seconds = Median(seconds);
  const Bytes noise = Noise(kMost);
  size_t size = kFirst;
  while (true) {
    PSGD_ASSIGN_OR_RETURN(seconds[0], seconds_for(noise.Sub(0, size)));
    if (seconds[0] - speed.round_trip_seconds >= kTelling || size == kMost) break;
    size *= 2;
  }
  // Many a link lets the first bytes after a pause through faster than those that follow: with two
  // more right behind, the median is of what it carries on and on.
  for (int i = 1; i < kTimes; ++i) {
    PSGD_ASSIGN_OR_RETURN(seconds[i], seconds_for(noise.Sub(0, size)));
  }
  const double sending = std::max(Median(seconds) - speed.round_trip_seconds, kLeastSeconds);
  speed.bytes_per_second = static_cast<double>(size) / sending;
  return speed;
}

}  // namespace psgd
