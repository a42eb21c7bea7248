// SIGINT and SIGTERM as a counter: once asks for an orderly end, twice for an immediate one.
#pragma once

#include <atomic>
#include <thread>

#include "common/clock.h"

namespace psgd {

// Make one at the start of main, before other threads: it blocks the signals for all of them.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  const std::atomic<int>& count() const { return count_; }
  // When the first came. REQUIRES: count() > 0.
  const std::atomic<Time>& first() const { return first_; }

 private:
  std::atomic<int> count_{0};
  std::atomic<Time> first_{Time{}};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

// This process ends at once (SIGKILL) when the one that started it dies: nobody is left who could
// tell it to.
void DieWithParent();

}  // namespace psgd
