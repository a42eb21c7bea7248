// How fast a run trains, told from two looks at what it has recorded.
#pragma once

#include <string>

#include "experiment/record/records.h"

namespace psgd {

// So few steps say little: the first ones are slower than others.
inline constexpr double kLeastTrialSteps = 20;

// What a record of progress says, summed over the workers.
struct TrialMark {
  double seconds = 0;  // since the run began
  double steps = 0;
  double samples = 0;
  double training = 0;   // seconds in steps, whatever of them
  double computing = 0;  // of those, the seconds in which they asked for a processor
  double cpu = 0;        // seconds that they had one

  static TrialMark Of(const Record& progress);
};

struct TrialPlace {
  int workers = 1;
  int threads = 1;  // of each
  int cores = 1;
  bool gpus = false;  // then processors tell nothing
};

struct TrialSpeed {
  double before = 0;  // seconds, until it trains
  double samples_per_second = 0;
  double at_best = 0;  // the same, had it had its cores to itself; 0: it nearly had

  double SecondsFor(double samples) const { return before + samples / samples_per_second; }
  double SecondsAtBest(double samples) const {
    return at_best > 0 ? before + samples / at_best : SecondsFor(samples);
  }
};

// The time before the first step is no part of the rate, nor what passes between steps, as
// evaluations. REQUIRES: `last` has trained longer than `first`, on more samples.
TrialSpeed SpeedBetween(const TrialMark& first, const TrialMark& last, const TrialPlace& place);

}  // namespace psgd
