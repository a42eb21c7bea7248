// Errors of calls that a program must distinguish from other errors.
#pragma once

#include "absl/strings/cord.h"
#include "common/status.h"

namespace psgd {

inline constexpr char kOutOfOrder[] = "psgd/out-of-order";
inline constexpr char kWantsState[] = "psgd/wants-state";

// A call out of order, such as a push between two steps.
template <typename... Parts>
absl::Status OutOfOrder(const Parts&... parts) {
  absl::Status status = FailedPreconditionError(parts...);
  status.SetPayload(kOutOfOrder, absl::Cord("1"));
  return status;
}
inline bool IsOutOfOrder(const absl::Status& status) {
  return status.GetPayload(kOutOfOrder).has_value();
}

// A checkpoint wants the program's state: SaveState, and the same call again.
inline bool WantsState(const absl::Status& status) {
  return status.GetPayload(kWantsState).has_value();
}

}  // namespace psgd
