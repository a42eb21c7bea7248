// Commands in their stored form.
#pragma once

#include "proto/journal.pb.h"
#include "server/shard/shard_command.h"

namespace psgd {

// REQUIRES: `command` is no InstallModel. It is never stored; the image that follows it is.
ShardOrder ToOrder(uint64_t number, const ShardCommand& command);
// INVALID_ARGUMENT: `order` holds no command.
absl::StatusOr<ShardCommand> FromOrder(const ShardOrder& order);

}  // namespace psgd
