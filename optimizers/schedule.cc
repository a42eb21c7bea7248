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

// How often the warm-up fits into the run up to the end of this step. Without a warm-up 1.
double WarmupsDone(const Progress& warmup, const ScheduleTime& time) {
  if (warmup.has_steps() && warmup.steps() > 0) {
    return (static_cast<double>(time.step) + 1) / static_cast<double>(warmup.steps());
  }
  if (warmup.has_epochs() && warmup.epochs() > 0) {
    return (time.epoch + time.epochs_per_step) / warmup.epochs();
  }
  return 1;
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

// From `from` to `to` along half a cosine, as `share` goes from 0 to 1.
double AlongCosine(double from, double to, double share) {
  return to + (from - to) * (1 + CosPi(std::clamp(share, 0.0, 1.0))) / 2;
}

// The step that begins at the end of the run less one step is the last.
double TopOf(const OneCycleSchedule& cycle, const ScheduleTime& time) {
  return cycle.rise() * time.total_epochs - time.epochs_per_step;
}

double OneCycle(const OneCycleSchedule& cycle, const ScheduleTime& time) {
  const double top = TopOf(cycle, time);
  const double end = time.total_epochs - time.epochs_per_step;
  if (time.epoch <= top && top > 0) return AlongCosine(cycle.first(), 1, time.epoch / top);
  const double fall = end - std::max(top, 0.0);
  return AlongCosine(1, cycle.floor(), fall > 0 ? (time.epoch - std::max(top, 0.0)) / fall : 1);
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
      return AlongCosine(1, floor, ShareOfDecay(schedule.warmup(), time));
    }
    case ScheduleConfig::kLinear: {
      const double floor = schedule.linear().floor();
      return 1 + (floor - 1) * ShareOfDecay(schedule.warmup(), time);
    }
    case ScheduleConfig::kPolynomial: {
      const double floor = schedule.polynomial().floor();
      const double left = 1 - ShareOfDecay(schedule.warmup(), time);
      return floor + (1 - floor) * PowerOfShare(left, schedule.polynomial().power());
    }
    case ScheduleConfig::kInverseSqrt:
      return 1 / std::sqrt(std::max(1.0, WarmupsDone(schedule.warmup(), time)));
    case ScheduleConfig::kOneCycle:
      return OneCycle(schedule.one_cycle(), time);
    default:
      return 1;
  }
}

}  // namespace

double ScheduleFactor(const ScheduleConfig& schedule, const ScheduleTime& time) {
  return std::clamp(WarmupsDone(schedule.warmup(), time), 0.0, 1.0) * DecayFactor(schedule, time);
}

double RateLeft(const ScheduleConfig& schedule, const ScheduleTime& time) {
  const bool rises = schedule.has_one_cycle() && time.epoch <= TopOf(schedule.one_cycle(), time);
  return rises ? 1 : DecayFactor(schedule, time);
}

}  // namespace psgd
