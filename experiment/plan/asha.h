// Which runs go on at a rung: asynchronous successive halving (Li et al. 2020), as it stops runs.
#pragma once

#include <map>
#include <string>

#include "proto/sweep.pb.h"

namespace psgd {

inline constexpr double kEpochTolerance = 1e-6;

// A run's evaluation after so many epochs.
struct AtRung {
  double epoch = 0;
  double accuracy = 0;
  double loss = 0;
};

// Remembers what runs reached at each rung. A run that reaches one goes on while it is among the
// best 1/reduction of those that reached it so far, itself included; the first ones go on in any
// case. Nobody waits for others, so with several runs at a time it depends on who comes first. Not
// thread-safe.
class Asha {
 public:
  // REQUIRES: asha has rungs, in rising order.
  explicit Asha(const SweepAsha& asha) : asha_(asha) {}

  // It is a rung, and the run was not told of there yet.
  bool Decides(const std::string& run, const AtRung& at) const;
  // False: it is to stop. Where nothing is to be decided nothing changes, and nobody stops.
  bool GoesOn(const std::string& run, const AtRung& at);

 private:
  // Of the metric; higher is better.
  double Score(const AtRung& at) const;
  // 0: none.
  int RungAt(double epoch) const;

  const SweepAsha asha_;
  std::map<int, std::map<std::string, double>> scores_;  // by rung, by run
};

}  // namespace psgd
