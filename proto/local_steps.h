// Local steps: what a config's `local` says about a clock.
#pragma once

#include <algorithm>

#include "proto/config.pb.h"

namespace psgd {

// Whether workers take steps of their own between two exchanges with the shards.
inline bool TakesLocalSteps(const LocalConfig& local) { return local.steps() != 1; }

// The steps that the fastest worker takes in a clock. A clock is one exchange, of one fragment.
inline uint32_t StepsOfClock(const LocalConfig& local) {
  const int32_t steps = local.steps() == 0 ? local.most() : local.steps();
  return static_cast<uint32_t>(std::max(1, steps / std::max(1, local.fragments())));
}

}  // namespace psgd
