// Adds the time of a scope to a counter, and to the run's trace.
#pragma once

#include "common/clock.h"
#include "train/step_trace.h"

namespace psgd {

class StepClock {
 public:
  // Measures a part of the step that leads to `clock`.
  StepClock(double* seconds, StepTrace* trace, TraceSpan::Kind kind, uint64_t clock)
      : seconds_(seconds), trace_(trace), kind_(kind), clock_(clock), start_(SteadyNow()) {}
  ~StepClock() {
    const Time end = SteadyNow();
    *seconds_ += Seconds(end - start_);
    trace_->Add(kind_, clock_, start_, end);
  }
  StepClock(const StepClock&) = delete;
  StepClock& operator=(const StepClock&) = delete;

 private:
  double* const seconds_;
  StepTrace* const trace_;
  const TraceSpan::Kind kind_;
  const uint64_t clock_;
  const Time start_;
};

}  // namespace psgd
