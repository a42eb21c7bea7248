// What can be found wrong with a run before any process of it starts.
#pragma once

#include "common/status.h"
#include "proto/config.pb.h"

namespace psgd {

// Opens the data and builds the network, as every worker on this machine will. An error says what
// does not fit, or which key would do nothing.
absl::Status CheckTrainable(const Config& config);

}  // namespace psgd
