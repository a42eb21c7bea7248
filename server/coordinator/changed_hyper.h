// Which hyper-parameters may change during a run, and to what.
#pragma once

#include "common/status.h"
#include "proto/control.pb.h"

namespace psgd {

// The present ones with what the request sets.
absl::StatusOr<HyperParameters> ChangedHyper(HyperParameters present,
                                             const SetHyperRequest& request, const Config& config);

}  // namespace psgd
