// What people change of a run that goes on.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "proto/control.pb.h"

namespace psgd {

// From "learning_rate=0.01" and the like.
absl::StatusOr<SetHyperRequest> ParseAssignments(const std::vector<std::string>& assignments);

}  // namespace psgd
