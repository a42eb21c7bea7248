// Adds the time of a scope to a counter.
#pragma once

#include "common/clock.h"

namespace psgd {

class StepClock {
 public:
  explicit StepClock(double* seconds) : seconds_(seconds), start_(SteadyNow()) {}
  ~StepClock() { *seconds_ += Seconds(SteadyNow() - start_); }
  StepClock(const StepClock&) = delete;
  StepClock& operator=(const StepClock&) = delete;

 private:
  double* const seconds_;
  const Time start_;
};

}  // namespace psgd
