// A twin: the run that compressed or asynchronous runs are compared with.
#pragma once

#include "absl/strings/string_view.h"
#include "proto/config.pb.h"

namespace psgd {

// Makes every step an exchange, with the optimizer and the schedule of the local steps. Without
// keys of `local` nothing changes. Defaults need not be resolved.
Config ExchangeInEachStep(Config config);
// The same run with uncompressed updates at staleness 0, and an exchange in every step. Resolves
// the defaults, so that those that depend on `local` are right for the twin.
Config DenseTwin(Config config);
bool IsDenseSynchronous(const Config& config);

// True if the key says how updates travel or when they are applied; a twin has the default.
bool IsAboutUpdates(absl::string_view key);

}  // namespace psgd
