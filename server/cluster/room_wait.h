// How long the results of a run wait for room on a full disk: until somebody asks the run to stop.
// If the run was asked before the wait began, they wait for `most`.
#pragma once

#include <optional>

#include "common/clock.h"

namespace psgd {

// Not thread-safe.
class RoomWait {
 public:
  // Whether the results go on waiting. The first call begins the wait.
  bool GoesOn(bool asked_to_stop, Duration most, Time now) {
    if (!wait_) wait_ = {now, asked_to_stop};
    return wait_->asked_before ? now - wait_->since < most : !asked_to_stop;
  }
  bool begun() const { return wait_.has_value(); }
  void End() { wait_.reset(); }

 private:
  struct Wait {
    Time since{};
    bool asked_before = false;  // the run was asked to stop before
  };
  std::optional<Wait> wait_;
};

}  // namespace psgd
