// Where the weight decay of an optimizer is applied.
#pragma once

#include "proto/config.pb.h"

namespace psgd {

// The optimizer applies the decay to the weights itself. Otherwise the worker adds it to the
// gradient.
inline bool DecouplesDecay(const OptimizerConfig& optimizer) {
  return optimizer.has_adamw() || optimizer.has_lamb() || optimizer.has_muon();
}

}  // namespace psgd
