// The learning rate's schedule: a factor as a pure function of progress. Nothing has to be saved,
// and a resumed run goes on with the same bits.
#pragma once

#include <cstdint>

#include "proto/config.pb.h"

namespace psgd {

// The progress at a step.
struct ScheduleTime {
  double epoch = 0;            // progress before the step, in epochs
  uint64_t step = 0;           // steps (clocks) before this step
  double epochs_per_step = 0;  // what this step adds to `epoch`
  double total_epochs = 1;     // length of the run
};

// The factor of the learning rate:
//   warmup     from 0 in a straight line: step i of n has (i + 1) / n; times what follows
//   constant   1
//   step       factor ^ (how many whole `every` have passed)
//   multistep  factor ^ (how many of `at` have passed)
//   cosine     floor + (1 - floor) * (1 + cos(pi * t)) / 2
//   linear     1 + (floor - 1) * t
//   polynomial    floor + (1 - floor) * (1 - t) ^ power
//   inverse_sqrt  sqrt(n / (i + 1)) after a warm-up of n steps
//   one_cycle     from `first` to 1 along a cosine, then along another to `floor`, which the last
//                 step has: PyTorch's OneCycleLR
// where t runs from 0 at the end of the warm-up to 1 at the end of the run. step, multistep and
// one_cycle count from the start of the run. If a length in epochs is no whole number of steps, it
// ends with the step that crosses it.
double ScheduleFactor(const ScheduleConfig& schedule, const ScheduleTime& time);

// The share of the highest rate that is left; 1 until the rate has been highest.
double RateLeft(const ScheduleConfig& schedule, const ScheduleTime& time);

}  // namespace psgd
