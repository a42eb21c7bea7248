// ps-ctl ui: the dashboard of recorded runs.
#pragma once

#include <string>

#include "common/status.h"

namespace psgd {

struct CtlUiOptions {
  std::string bind = "127.0.0.1";
  int port = 7081;
  bool insecure = false;  // `bind` may be a public address
};

// Serves until the process is asked to stop. `json`: prints the address as a line of JSON.
absl::Status ServeRuns(const std::string& root, const CtlUiOptions& options, bool json);

}  // namespace psgd
