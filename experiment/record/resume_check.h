// Whether a run directory holds a run that can go on.
#pragma once

#include <string>

#include "common/status.h"
#include "proto/config.pb.h"

namespace psgd {

// A finished run has nothing left to do, which is not what resuming is asked for: an error, which
// says what to raise.
absl::Status CheckUnfinished(const std::string& run_dir, const Config& config);

}  // namespace psgd
