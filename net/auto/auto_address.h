// The address of a shard that is reached over TCP and, on its own machine, through shared memory:
// "tcp://host:port ipc://name machine=ID".
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

struct AutoAddress {
  std::string tcp;
  std::string ipc;      // empty: only TCP
  std::string machine;  // of the listener; empty: not known yet

  std::string ToString() const;
};

// INVALID_ARGUMENT: `text` has another form.
absl::StatusOr<AutoAddress> ParseAutoAddress(absl::string_view text);

}  // namespace psgd
