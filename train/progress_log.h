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

  // The step that leads to `clock` is done. `samples`: how many count in its loss. `wait`: seconds
  // that the worker waited before it.
  void Add(uint64_t clock, uint64_t samples, double loss_sum, double wait, Time now);
  // The number of steps since the start.
  uint64_t all_steps() const { return all_steps_; }

 private:
  const Log log_;
  // The time of the last line, or of the first step before there is a line. The counts below are
  // since then, except all_steps_.
  Time since_{};
  uint64_t steps_ = 0;
  uint64_t all_steps_ = 0;
  uint64_t samples_ = 0;
  double loss_sum_ = 0;
  double wait_ = 0;
};

}  // namespace psgd
