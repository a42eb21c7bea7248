// Exit codes of every psgd program; documented in docs/programs.md: do not change. The code of a
// library's error decides: InvalidArgument and NotFound mean a fault before training.
#pragma once

#include <iostream>
#include <string>

#include "absl/status/status.h"

namespace psgd {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,       // the run or the request failed
  kExitUsage = 2,        // the command line, the config or the data are wrong
  kExitInterrupted = 3,  // stopped on request; the work is saved
};

// Prints "ps-server: message" on stderr and returns the matching exit code.
inline ExitCode Fail(const std::string& program, const absl::Status& status) {
  std::cerr << program << ": " << std::string(status.message()) << "\n";
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
      return kExitUsage;
    case absl::StatusCode::kCancelled:
      return kExitInterrupted;
    default:
      return kExitFailed;
  }
}

}  // namespace psgd
