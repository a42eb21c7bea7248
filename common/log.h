// Logging through spdlog. Callers pass a logger down; there is no global logger.
#pragma once

#include <spdlog/logger.h>

#include <memory>
#include <string>

#include "common/status.h"

namespace psgd {

using Log = std::shared_ptr<spdlog::logger>;

struct LogOptions {
  std::string name;  // the process or part: "server", "worker-0"
  std::string file;  // appended to; empty: no file
  bool to_stderr = true;
  std::string level = "info";  // trace, debug, info, warn, error
};

absl::StatusOr<Log> MakeLog(const LogOptions& options);
// Discards everything. For tests, and for libraries whose caller gives no log.
Log NullLog();

}  // namespace psgd
