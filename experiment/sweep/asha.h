// Which runs go on at a rung: asynchronous successive halving (Li et al. 2020), as it stops runs.
#pragma once

#include <map>
#include <string>

#include "proto/sweep.pb.h"

namespace psgd {

// Remembers what runs reached at each rung. A run that reaches one goes on while it is among the
// best 1/reduction of those that reached it so far, itself included; the first ones go on in any
// case. Nobody waits for others, so with several runs at a time it depends on who comes first. Not
// thread-safe.
class Asha {
 public:
  // REQUIRES: asha has rungs, in rising order.
  explicit Asha(const SweepAsha& asha) : asha_(asha) {}

  // A run's evaluation after so many epochs. False: it is to stop. What is no rung, or was told
  // before, changes nothing, and stops nobody.
  bool GoesOn(const std::string& run, double epoch, double accuracy, double loss);

 private:
  // Of the metric; higher is better.
  double Score(double accuracy, double loss) const;

  const SweepAsha asha_;
  std::map<int, std::map<std::string, double>> scores_;  // by rung, by run
};

}  // namespace psgd
