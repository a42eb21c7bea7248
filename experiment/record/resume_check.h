// Checks whether a run directory holds a run that can go on.
#pragma once

#include <string>

#include "common/status.h"
#include "proto/config.pb.h"

namespace psgd {

// A finished run cannot be resumed: the error says which key to raise.
absl::Status CheckUnfinished(const std::string& run_dir, const Config& config);

}  // namespace psgd
