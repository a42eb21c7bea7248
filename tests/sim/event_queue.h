// Simulated time: actions run one after the other, at their moment, in the order they were scheduled.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "common/clock.h"

namespace psgd::sim {

// Not thread-safe.
class EventQueue {
 public:
  using Action = std::function<void()>;

  Time now() const { return now_; }

  void At(Time when, Action action) {
    actions_.emplace(std::pair(std::max(when, now_), next_++), std::move(action));
  }
  void After(Duration delay, Action action) { At(now_ + delay, std::move(action)); }

  // False when nothing is left to do.
  bool RunOne() {
    if (actions_.empty()) return false;
    auto first = actions_.begin();
    now_ = first->first.first;
    Action action = std::move(first->second);
    actions_.erase(first);
    action();
    return true;
  }

 private:
  Time now_ = std::chrono::hours(1);  // far from 0, as a real clock is
  uint64_t next_ = 0;
  std::map<std::pair<Time, uint64_t>, Action> actions_;
};

}  // namespace psgd::sim
