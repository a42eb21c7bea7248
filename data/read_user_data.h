// Reading data that a user named.
#pragma once

#include <functional>

#include "common/status.h"

namespace psgd {

// Calls read(). The user must correct damaged and unreadable files, just as wrong keys: their
// errors become InvalidArgument. Too little memory for the data is ResourceExhausted.
absl::Status ReadUserData(const std::function<absl::Status()>& read);

}  // namespace psgd
