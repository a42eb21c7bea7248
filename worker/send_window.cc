#include "worker/send_window.h"

#include <algorithm>
#include <utility>

namespace psgd {
namespace {

constexpr Duration kSeconds = std::chrono::seconds(4);
// Long, for a link that is always full shows only round trips with the time in its queue.
constexpr Duration kMinutes = std::chrono::seconds(60);
// A shard may be busy for so long while the link stays busy.
constexpr double kMoment = 0.025;          // seconds
constexpr double kShortestSeconds = 1e-6;  // no clock tells less apart
constexpr double kLeastBytes = 256u << 10;

}  // namespace

void SendWindow::Recent::Add(double value, Time now) {
  if (now - began_ >= period_) {
    before_ = std::exchange(now_, 0);
    began_ = now;
  }
  now_ = std::max(now_, value);
}

double SendWindow::Recent::Largest() const { return std::max(now_, before_); }

SendWindow::SendWindow()
    : bytes_per_second_(kSeconds), message_bytes_(kSeconds), trips_per_second_(kMinutes) {}

SendWindow::Mark SendWindow::OnSent(bool alone, Time now) {
  if (alone) arrived_at_ = now;  // the link was idle, which says nothing of its rate
  return {arrived_, arrived_at_, now};
}

void SendWindow::OnArrived(const Mark& mark, size_t bytes, Time now) {
  arrived_ += bytes;
  arrived_at_ = now;
  const auto arrived = static_cast<double>(arrived_ - mark.arrived);
  bytes_per_second_.Add(arrived / std::max(Seconds(now - mark.arrived_at), kShortestSeconds), now);
  trips_per_second_.Add(1 / std::max(Seconds(now - mark.sent), kShortestSeconds), now);
  message_bytes_.Add(static_cast<double>(bytes), now);
}

size_t SendWindow::bytes(size_t most) const {
  const double rate = bytes_per_second_.Largest();
  if (rate == 0) return most;
  const double wanted = rate * (1 / trips_per_second_.Largest() + kMoment);
  const double least = std::max(kLeastBytes, 2 * message_bytes_.Largest());
  return static_cast<size_t>(std::clamp(std::max(wanted, least), 1.0, static_cast<double>(most)));
}

}  // namespace psgd
