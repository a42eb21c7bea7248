// What compression and staleness are compared with.
#pragma once

#include "absl/strings/string_view.h"
#include "proto/config.pb.h"

namespace psgd {

// The same run with whole updates, one after the other.
Config DenseTwin(Config config);
bool IsDenseSynchronous(const Config& config);

// A key that says how updates travel or when they count; a run's twin does without it.
bool IsAboutUpdates(absl::string_view key);

}  // namespace psgd
