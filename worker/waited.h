// What a worker waited for while it waited for weights.
#pragma once

#include <algorithm>

#include "common/clock.h"

namespace psgd {

// The times of a pull at the shard whose answer came last.
struct PullAnswer {
  Duration round_trip{};  // from when the pull left
  Duration apply{};       // the part in which the shard worked, as it says
  Duration wait{};        // the part in which the shard held the pull back
};

struct Waited {
  double wire =
      0;  // on the way there and back, in queues, and what the shard did for others before
  double apply = 0;  // for the shard's work: taking in updates, making the answer
  double wait = 0;   // for slower workers, by the staleness bound, and for the journal

  Waited& operator+=(const Waited& more) {
    wire += more.wire;
    apply += more.apply;
    wait += more.wait;
    return *this;
  }
};

// Splits a wait of so many seconds, which may have begun after the pull left, into parts. They have
// the proportions of the whole round trip.
inline Waited PartsOfWait(double seconds, const PullAnswer& answer) {
  const double whole = Seconds(answer.round_trip);
  if (whole <= 0) return {.wire = seconds};
  const double wait = std::clamp(Seconds(answer.wait), 0.0, whole);
  const double apply = std::clamp(Seconds(answer.apply), 0.0, whole - wait);
  const double share = std::min(1.0, seconds / whole);
  return {seconds - share * (wait + apply), share * apply, share * wait};
}

}  // namespace psgd
