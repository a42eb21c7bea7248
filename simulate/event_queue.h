// Simulated time: actions run one after the other, at their moment, in the order they were
// scheduled.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "common/clock.h"

namespace psgd::sim {

// Not thread-safe.
class EventQueue {
 public:
  using Action = std::function<void()>;

  Time now() const { return now_; }

  void At(Time when, Action action) {
    uint32_t slot = static_cast<uint32_t>(actions_.size());
    if (free_.empty()) {
      actions_.push_back(std::move(action));
    } else {
      slot = free_.back();
      free_.pop_back();
      actions_[slot] = std::move(action);
    }
    events_.push_back({std::max(when, now_), next_++, slot});
    std::push_heap(events_.begin(), events_.end(), Later());
  }
  void After(Duration delay, Action action) { At(now_ + delay, std::move(action)); }

  // False when nothing is left to do.
  bool RunOne() {
    if (events_.empty()) return false;
    std::pop_heap(events_.begin(), events_.end(), Later());
    now_ = events_.back().when;
    const uint32_t slot = events_.back().slot;
    events_.pop_back();
    const Action action = std::exchange(actions_[slot], nullptr);
    free_.push_back(slot);
    action();
    return true;
  }

 private:
  struct Event {
    Time when{};
    uint64_t number = 0;
    uint32_t slot = 0;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return std::pair(a.when, a.number) > std::pair(b.when, b.number);
    }
  };

  Time now_ = std::chrono::hours(1);  // far from 0, as a real clock is
  uint64_t next_ = 0;
  std::vector<Event> events_;    // a heap, the next one first
  std::vector<Action> actions_;  // by slot; they stay where they are while the heap moves
  std::vector<uint32_t> free_;   // slots
};

}  // namespace psgd::sim
