#include "worker/link_speed.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "common/philox.h"

namespace psgd {
namespace {

constexpr size_t kFirst = 16u << 10;
constexpr size_t kMost = 4u << 20;
constexpr double kTelling = 0.03;       // seconds
constexpr int kTimes = 3;               // that a probe whose time counts is sent
constexpr double kLeastSeconds = 1e-6;  // of sending: no clock tells less apart

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
  // The least of some times: whatever else a machine does only adds to them.
  const auto least_of = [&](const Bytes& probe, double unless_below) -> absl::StatusOr<double> {
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kTimes && least >= unless_below; ++i) {
      PSGD_ASSIGN_OR_RETURN(const double seconds, seconds_for(probe));
      least = std::min(least, seconds);
    }
    return least;
  };
  LinkSpeed speed;
  PSGD_ASSIGN_OR_RETURN(speed.round_trip_seconds, least_of(Bytes(), 0));
  const double telling = speed.round_trip_seconds + kTelling;
  const Bytes noise = Noise(kMost);
  Bytes probe;
  for (size_t size = kFirst; size <= kMost; size *= 2) {
    probe = noise.Sub(0, size);
    PSGD_ASSIGN_OR_RETURN(const double seconds, least_of(probe, telling));
    if (seconds >= telling) break;
  }
  // Many a link lets the first bytes after a pause through faster than those that follow. They are
  // through by now: what is sent once more goes at the speed that the link keeps up.
  PSGD_ASSIGN_OR_RETURN(const double seconds, least_of(probe, 0));
  speed.bytes_per_second = static_cast<double>(probe.size()) /
                           std::max(seconds - speed.round_trip_seconds, kLeastSeconds);
  return speed;
}

}  // namespace psgd
