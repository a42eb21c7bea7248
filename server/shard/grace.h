// The grace of consistency.quorum: how long a clock that has its quorum waits for late workers. It
// is no part of a shard's state: a new leading copy gives the grace anew.
#pragma once

#include <cstdint>
#include <optional>

#include "common/clock.h"

namespace psgd {

// Not thread-safe.
class Grace {
 public:
  explicit Grace(Duration length) : length_(length) {}

  // Something came since the last look, so there may be a quorum.
  void LookAgain() { look_again_ = true; }
  // Whether it is time to look if `clock` has its quorum.
  bool MustLook(uint64_t clock, Time now);
  // The look found a quorum, or none. Returns whether the clock's grace is over.
  bool IsOver(bool quorum, Time now);

  // When the grace ends; nullopt: no grace runs.
  std::optional<Time> Ends() const;
  // Nobody could push for so long, so the grace lasts longer by that.
  void Extend(Duration lost);
  // Begins anew at the next look.
  void Forget();

 private:
  const Duration length_;
  bool look_again_ = false;
  uint64_t clock_ = 0;
  std::optional<Time> began_;
};

}  // namespace psgd
