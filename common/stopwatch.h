// Adds the time of a scope to a counter.
#pragma once

#include "common/clock.h"

namespace psgd {

class Stopwatch {
 public:
  explicit Stopwatch(double* seconds) : seconds_(seconds), start_(SteadyNow()) {}
  ~Stopwatch() { *seconds_ += Seconds(SteadyNow() - start_); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double* const seconds_;
  const Time start_;
};

}  // namespace psgd
