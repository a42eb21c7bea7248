// The training speed of a run, computed from two of its progress records.
#pragma once

#include "experiment/record/records.h"

namespace psgd {

// Fewer steps say little, because the first steps are slower.
inline constexpr double kLeastTrialSteps = 20;

// A progress record, summed over the workers.
struct TrialMark {
  double seconds = 0;  // since the run began
  double steps = 0;
  double samples = 0;
  double training = 0;   // seconds in steps, all phases
  double computing = 0;  // seconds of these in which workers needed a CPU
  double cpu = 0;        // seconds of CPU time that they got

  static TrialMark Of(const Record& progress);
};

struct TrialPlace {
  int workers = 1;
  int threads = 1;  // of each worker
  int cores = 1;
  bool gpus = false;  // CPU time then says nothing
};

struct TrialSpeed {
  double before = 0;  // seconds until training begins
  double samples_per_second = 0;
  double at_best = 0;  // the speed with the cores to itself; 0: it nearly had them

  double SecondsFor(double samples) const { return before + samples / samples_per_second; }
  double SecondsAtBest(double samples) const {
    return at_best > 0 ? before + samples / at_best : SecondsFor(samples);
  }
};

// The rate leaves out the time before the first step and between steps, such as evaluations.
// REQUIRES: `last` has trained longer than `first`, on more samples.
TrialSpeed SpeedBetween(const TrialMark& first, const TrialMark& last, const TrialPlace& place);

}  // namespace psgd
