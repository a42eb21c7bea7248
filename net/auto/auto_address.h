// The address of a shard that is reached over TCP, over UCX, and on its own machine through shared
// memory: "tcp://host:port ucx=PORT ipc://name machine=ID".
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

struct AutoAddress {
  std::string tcp;      // ZeroMQ's
  int ucx = 0;          // UCX's port on the same host; 0: not over UCX
  std::string ipc;      // empty: not through shared memory
  std::string machine;  // of the listener; empty: not known yet

  std::string ToString() const;
  // As UCX takes it. REQUIRES: `tcp` is an address.
  std::string UcxAddress() const;
};

// INVALID_ARGUMENT: `text` has another form.
absl::StatusOr<AutoAddress> ParseAutoAddress(absl::string_view text);

}  // namespace psgd
