#include "optimizers/schedule.h"

#include <algorithm>
#include <cmath>

#include "optimizers/power.h"

namespace psgd {
namespace {

// Progress is a sum of many fractions: a boundary this close counts as reached.
constexpr double kEpochTolerance = 1e-9;

// cos(pi * t) for t in [0, 1] by its power series: the C library's result may differ between CPUs.
double CosPi(double t) {
  if (t > 0.5) return -CosPi(1 - t);
  const double x = t * 3.14159265358979323846;
  double term = 1, sum = 1;
  for (int k = 1; k <= 12; ++k) {
    term *= -x * x / ((2 * k - 1) * (2 * k));
    sum += term;
  }
  return sum;
}

double WarmupFactor(const Progress& warmup, const ScheduleTime& time) {
  double done = 1, length = 1;
  if (warmup.has_steps() && warmup.steps() > 0) {
    done = static_cast<double>(time.step) + 1;
    length = static_cast<double>(warmup.steps());
  } else if (warmup.has_epochs() && warmup.epochs() > 0) {
    done = time.epoch + time.epochs_per_step;
    length = warmup.epochs();
  }
  return std::clamp(done / length, 0.0, 1.0);
}

// How many whole `length`s have passed.
uint64_t Passed(const Progress& length, const ScheduleTime& time) {
  if (length.has_steps()) {
    return length.steps() > 0 ? time.step / static_cast<uint64_t>(length.steps()) : 0;
  }
  if (!(length.epochs() > 0)) return 0;
  const double times = std::floor((time.epoch + kEpochTolerance) / length.epochs());
  // Beyond a double's exponents, more halvings change nothing. The clamp keeps the conversion
  // defined.
  return static_cast<uint64_t>(std::clamp(times, 0.0, 1e6));
}

bool Reached(const Progress& at, const ScheduleTime& time) {
  if (at.has_steps()) return time.step >= static_cast<uint64_t>(std::max<int64_t>(at.steps(), 0));
  return time.epoch + kEpochTolerance >= at.epochs();
}

// 0 at the end of the warm-up, 1 at the end of the run.
double ShareOfDecay(const Progress& warmup, const ScheduleTime& time) {
  const double begin = warmup.has_steps()
                           ? static_cast<double>(warmup.steps()) * time.epochs_per_step
                           : warmup.epochs();
  const double length = time.total_epochs - begin;
  if (!(length > 0)) return 0;
  return std::clamp((time.epoch - begin) / length, 0.0, 1.0);
}

double DecayFactor(const ScheduleConfig& schedule, const ScheduleTime& time) {
  switch (schedule.decay_case()) {
    case ScheduleConfig::kStep:
      return Power(schedule.step().factor(), Passed(schedule.step().every(), time));
    case ScheduleConfig::kMultistep: {
      uint64_t reached = 0;
      for (const Progress& at : schedule.multistep().at()) reached += Reached(at, time) ? 1 : 0;
      return Power(schedule.multistep().factor(), reached);
    }
    case ScheduleConfig::kCosine: {
      const double floor = schedule.cosine().floor();
      return floor + (1 - floor) * (1 + CosPi(ShareOfDecay(schedule.warmup(), time))) / 2;
    }
    case ScheduleConfig::kLinear: {
      const double floor = schedule.linear().floor();
      return 1 + (floor - 1) * ShareOfDecay(schedule.warmup(), time);
    }
    default:
      return 1;
  }
}

}  // namespace

double ScheduleFactor(const ScheduleConfig& schedule, const ScheduleTime& time) {
  return WarmupFactor(schedule.warmup(), time) * DecayFactor(schedule, time);
}

}  // namespace psgd
