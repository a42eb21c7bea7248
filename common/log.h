// Logging through spdlog. A logger is an object that is handed down, not a global.
#pragma once

#include <spdlog/logger.h>

#include <memory>
#include <string>

#include "common/status.h"

namespace psgd {

using Log = std::shared_ptr<spdlog::logger>;

struct LogOptions {
  std::string name;  // of the process or part: "server", "worker-0"
  std::string file;  // appended to; empty: no file
  bool to_stderr = true;
  std::string level = "info";  // trace, debug, info, warn, error
};

absl::StatusOr<Log> MakeLog(const LogOptions& options);
// Discards everything: for tests and libraries whose caller gave no log.
Log NullLog();

}  // namespace psgd
