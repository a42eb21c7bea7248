// What a trainer does when another server leads the run: the session goes on there.
#include "worker/trainer.h"

namespace psgd {

absl::StatusOr<std::optional<MovedShards>> Trainer::ShardsMoved() const {
  const auto addresses = heartbeat_->TakeMove();
  if (!addresses) return std::nullopt;
  MovedShards moved{nullptr, *addresses};
  PSGD_ASSIGN_OR_RETURN(moved.endpoint, transport_->Connect(*addresses));
  return moved;
}

}  // namespace psgd
