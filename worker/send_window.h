// How many bytes may be on their way to a shard: as many as keep the link busy, and few more. What
// waits in a full queue cannot be overtaken, so more would keep front layers behind the others.
//
// The window is what the link carries in the shortest round trip and a moment. The rate is the best
// of the last seconds; as TCP's BBR does, each acknowledgement compares how much had arrived when
// its message left and how much has arrived now. Longer round trips do not count: they include the
// time in the queue that the window itself makes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/clock.h"

namespace psgd {

// Not thread-safe.
class SendWindow {
 public:
  // What was known when a message left.
  struct Mark {
    uint64_t arrived = 0;
    Time arrived_at{};
    Time sent{};
  };

  // A message leaves. `alone`: no other is on its way.
  Mark OnSent(bool alone, Time now);
  void OnArrived(const Mark& mark, size_t bytes, Time now);
  // At most `most`; as many before anything is known.
  size_t bytes(size_t most) const;

 private:
  // The best that was seen in some seconds.
  struct Seen {
    double bytes_per_second = 0;  // 0: nothing was seen
    size_t largest_message = 0;
  };
  Seen Best() const;

  uint64_t arrived_ = 0;
  Time arrived_at_{};
  double round_trip_seconds_ = 0;  // the shortest; 0: nothing arrived
  Seen now_, before_;
  Time began_{};  // when now_ began
};

}  // namespace psgd
