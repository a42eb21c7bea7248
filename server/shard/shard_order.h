// Commands as they are written down.
#pragma once

#include "proto/journal.pb.h"
#include "server/shard/shard_command.h"

namespace psgd {

// REQUIRES: it is no InstallModel, which is never written down: the image that follows it is.
ShardOrder ToOrder(uint64_t number, const ShardCommand& command);
// Without what no shard looks at, which of thousands of workers is a megabyte.
ShardOrder ToOrderForShard(uint64_t number, const ShardCommand& command);
// INVALID_ARGUMENT: it is none.
absl::StatusOr<ShardCommand> FromOrder(const ShardOrder& order);

}  // namespace psgd
