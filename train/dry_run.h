// What a worker would do with a config, without a server: ps-worker --dry-run.
#pragma once

#include <string>

#include "common/status.h"
#include "engine/runtime/network.h"
#include "proto/config.pb.h"

namespace psgd {

// A text for people: the memory that each kind of data needs, and the largest batch for which
// `available` bytes suffice.
absl::StatusOr<std::string> DryRunText(const Config& config, const NetworkOptions& options,
                                       size_t available);

}  // namespace psgd
