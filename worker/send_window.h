// Limits the bytes on their way to a shard: they keep the link busy, and are few more than that
// needs. Bytes in a full queue cannot be overtaken, so with more of them front layers would wait
// behind other layers.
//
// The window has the bytes that the link carries in the shortest round trip of the last minutes,
// plus a moment. The rate is the best of the last seconds. As in TCP's BBR, each acknowledgement
// compares how much has arrived now with how much had arrived when its message left. Longer round
// trips do not count: they include the time in the queue that the window itself makes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/clock.h"

namespace psgd {

// Not thread-safe.
class SendWindow {
 public:
  SendWindow();

  // What was known when a message left.
  struct Mark {
    uint64_t arrived = 0;
    Time arrived_at{};
    Time sent{};
  };

  // A message leaves. `alone`: no other is on its way.
  Mark OnSent(bool alone, Time now);
  void OnArrived(const Mark& mark, size_t bytes, Time now);
  // The window, at most `most`. It is `most` before anything is known.
  size_t bytes(size_t most) const;

 private:
  // The largest value that was added of late: within one to two times `period`.
  class Recent {
   public:
    explicit Recent(Duration period) : period_(period) {}
    void Add(double value, Time now);
    double Largest() const;  // 0: nothing was added

   private:
    Duration period_;
    double now_ = 0, before_ = 0;
    Time began_{};  // when now_ began
  };

  uint64_t arrived_ = 0;
  Time arrived_at_{};
  Recent bytes_per_second_, message_bytes_;
  Recent trips_per_second_;  // the inverse of a round trip
};

}  // namespace psgd
