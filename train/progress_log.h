// A line about the training in the worker's log, every ten seconds.
#pragma once

#include <cstdint>
#include <utility>

#include "common/clock.h"
#include "common/log.h"

namespace psgd {

// Not thread-safe.
class ProgressLog {
 public:
  explicit ProgressLog(Log log) : log_(std::move(log)) {}

  // A step that leads to `clock` is done. `samples`: counted in its loss. `wait`: seconds without
  // work before it.
  void Add(uint64_t clock, uint64_t samples, double loss_sum, double wait, Time now);
  // Since the start.
  uint64_t all_steps() const { return all_steps_; }

 private:
  const Log log_;
  // Since the last line; `since_` is that of the first step before the first one.
  Time since_{};
  uint64_t steps_ = 0;
  uint64_t all_steps_ = 0;
  uint64_t samples_ = 0;
  double loss_sum_ = 0;
  double wait_ = 0;
};

}  // namespace psgd
