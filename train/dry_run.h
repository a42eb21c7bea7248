// What a worker would do with a config, without a server: ps-worker --dry-run.
#pragma once

#include <string>

#include "common/status.h"
#include "engine/runtime/network.h"
#include "proto/config.pb.h"

namespace psgd {

// Memory by kind, and the largest batch that `available` bytes hold. For people.
absl::StatusOr<std::string> DryRunText(const Config& config, const NetworkOptions& options,
                                       size_t available);

}  // namespace psgd
