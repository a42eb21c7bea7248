// The weight of a push of local steps in the mean.
#pragma once

#include <cmath>

#include "proto/config.pb.h"
#include "proto/model.pb.h"

namespace psgd {

// Where workers take different numbers of steps, a push weighs as much as its worker's share of the
// clock's steps. 1 where all take the same number, and with reduction: sum. `segment`: the worker's
// share.
inline double WeightOfPush(const Config& config, const Segment& segment,
                           uint32_t batches_per_epoch) {
  const bool mean = config.consistency().reduction() == ConsistencyConfig::MEAN;
  if (!mean || segment.steps().empty()) return 1;
  const double of_clock = std::round(segment.epochs_per_clock() * batches_per_epoch);
  return segment.steps(0) * static_cast<double>(segment.ranks()) / of_clock;
}

}  // namespace psgd
