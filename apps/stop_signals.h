// Counts SIGINT and SIGTERM: one asks for an orderly end, two for an immediate end. SIGHUP counts
// as the first alone, and not if it was ignored at the start.
#pragma once

#include <atomic>
#include <thread>

#include "common/clock.h"

namespace psgd {

// Create this at the start of main, before other threads: it blocks the signals in all threads.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  const std::atomic<int>& count() const { return count_; }
  // The time of the first signal. REQUIRES: count() > 0.
  const std::atomic<Time>& first() const { return first_; }

 private:
  std::atomic<int> count_{0};
  std::atomic<Time> first_{Time{}};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

// Makes SIGKILL end this process when its parent dies, because then nobody can stop it.
void DieWithParent();

}  // namespace psgd
