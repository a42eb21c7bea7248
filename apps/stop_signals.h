// SIGINT and SIGTERM as a counter: once asks for an orderly end, twice for an immediate one.
#pragma once

#include <atomic>
#include <thread>

namespace psgd {

// Make one at the start of main, before other threads: it blocks the signals for all of them.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  const std::atomic<int>& count() const { return count_; }

 private:
  std::atomic<int> count_{0};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

// This process ends (SIGTERM) when the one that started it dies.
void DieWithParent();

}  // namespace psgd
