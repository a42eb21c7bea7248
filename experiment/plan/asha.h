// Decides which runs go on at a rung: asynchronous successive halving (Li et al. 2020), in its
// variant that stops runs.
#pragma once

#include <map>
#include <string>

#include "proto/sweep.pb.h"

namespace psgd {

inline constexpr double kEpochTolerance = 1e-6;

// "loss", or the name of the metric (experiment/record/metric.h).
std::string MetricOf(const SweepAsha& asha);

// A run's evaluation after `epoch` epochs.
struct AtRung {
  double epoch = 0;
  double score = 0;  // of the metric; NaN: not measured
  double loss = 0;
};

// Remembers each run's score at each rung. A run goes on if it is among the best 1/reduction of the
// runs that have reached the rung so far, itself included. The first runs always go on. No run
// waits for another, so with parallel runs the result depends on their order.
// Not thread-safe.
class Asha {
 public:
  // REQUIRES: asha has rungs, in rising order.
  explicit Asha(const SweepAsha& asha) : asha_(asha) {}

  // True if `at` is a rung and this run has no score there yet.
  bool Decides(const std::string& run, const AtRung& at) const;
  // Returns false if the run must stop. Without a decision to make, nothing changes and the run
  // goes on.
  bool GoesOn(const std::string& run, const AtRung& at);

 private:
  // Higher is better, also for the loss.
  double Score(const AtRung& at) const;
  // Returns 0 if there is no rung at this epoch.
  int RungAt(double epoch) const;

  const SweepAsha asha_;
  std::map<int, std::map<std::string, double>> scores_;  // by rung, by run
};

}  // namespace psgd
