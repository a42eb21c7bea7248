// Changes that people make to a running run.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "proto/control.pb.h"

namespace psgd {

// Parses assignments such as "learning_rate=0.01".
absl::StatusOr<SetHyperRequest> ParseAssignments(const std::vector<std::string>& assignments);

}  // namespace psgd
