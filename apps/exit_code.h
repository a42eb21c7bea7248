// Exit codes of every psgd program; documented in docs/programs.md: do not change. Libraries decide
// by the code of their errors: InvalidArgument and NotFound are for what is wrong before training.
#pragma once

#include <iostream>
#include <string>

#include "absl/status/status.h"

namespace psgd {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,       // the run or the request failed
  kExitUsage = 2,        // the command line, the config or the data are wrong
  kExitInterrupted = 3,  // stopped as asked; what was done is saved
};

// "ps-server: message" on stderr, and the code that fits.
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
