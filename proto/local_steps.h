// What a config's `local` says about clocks and weights.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proto/config.pb.h"

namespace psgd {

// Whether workers take steps of their own between two exchanges with the shards.
inline bool TakesLocalSteps(const LocalConfig& local) { return local.steps() != 1; }

// Between two exchanges of a slice; with `auto` those of the fastest worker.
inline int32_t StepsBetweenExchanges(const LocalConfig& local) {
  return local.steps() == 0 ? local.most() : local.steps();
}

// The steps that the fastest worker takes in a clock. A clock ends with one exchange, of one
// fragment.
inline uint32_t StepsOfClock(const LocalConfig& local) {
  return static_cast<uint32_t>(
      std::max(1, StepsBetweenExchanges(local) / std::max(1, local.fragments())));
}

// The same while the local rate is `left` times its highest. Less noise moves the weights then, so
// workers stay close to each other for more steps: by the square, as arXiv 2310.14423 derives it.
inline uint32_t StepsOfClock(const LocalConfig& local, double left) {
  if (local.least() == 0) return StepsOfClock(local);
  const double grown = local.least() / std::max(left * left, 1e-9) / std::max(1, local.fragments());
  return static_cast<uint32_t>(std::clamp(grown, 1.0, static_cast<double>(StepsOfClock(local))));
}

// The steps that the fastest worker takes in the first clocks.
inline uint32_t FewestStepsOfClock(const LocalConfig& local) { return StepsOfClock(local, 1); }

// Whether a worker's weights differ from the shards' after an exchange.
inline bool KeepsOwnWeights(const LocalConfig& local) {
  return local.fragments() > 1 || local.delay() > 0 || local.mix() < 1;
}

}  // namespace psgd
