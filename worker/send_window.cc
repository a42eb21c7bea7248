#include "worker/send_window.h"

#include <algorithm>
#include <utility>

namespace psgd {
namespace {

constexpr Duration kRemembered = std::chrono::seconds(4);
// A shard may be busy for so long while the link stays busy.
constexpr double kMoment = 0.025;          // seconds
constexpr double kShortestSeconds = 1e-6;  // no clock tells less apart
constexpr size_t kLeastBytes = 256u << 10;

}  // namespace

SendWindow::Mark SendWindow::OnSent(bool alone, Time now) {
  if (alone) arrived_at_ = now;  // the link was idle, which says nothing of its rate
  return {arrived_, arrived_at_, now};
}

void SendWindow::OnArrived(const Mark& mark, size_t bytes, Time now) {
  arrived_ += bytes;
  arrived_at_ = now;
  if (now - began_ >= kRemembered) {
    before_ = std::exchange(now_, {});
    began_ = now;
  }
  const double rate = static_cast<double>(arrived_ - mark.arrived) /
                      std::max(Seconds(now - mark.arrived_at), kShortestSeconds);
  const double round_trip = std::max(Seconds(now - mark.sent), kShortestSeconds);
  if (round_trip_seconds_ == 0 || round_trip < round_trip_seconds_)
    round_trip_seconds_ = round_trip;
  now_.bytes_per_second = std::max(now_.bytes_per_second, rate);
  now_.largest_message = std::max(now_.largest_message, bytes);
}

SendWindow::Seen SendWindow::Best() const {
  return {std::max(now_.bytes_per_second, before_.bytes_per_second),
          std::max(now_.largest_message, before_.largest_message)};
}

size_t SendWindow::bytes(size_t most) const {
  const Seen best = Best();
  if (best.bytes_per_second == 0) return most;
  const double wanted = best.bytes_per_second * (round_trip_seconds_ + kMoment);
  const size_t least = std::max(kLeastBytes, 2 * best.largest_message);
  if (wanted >= static_cast<double>(most)) return most;
  return std::min(most, std::max(least, static_cast<size_t>(wanted)));
}

}  // namespace psgd
