// Messages between the copies of a shard, as streams carry them.
#pragma once

#include <functional>
#include <optional>

#include "proto/peers.pb.h"
#include "server/cluster/copy_core.h"
#include "server/durability/shard_parts.h"

namespace psgd {

// REQUIRES: it is a Has or a Written.
FollowingSays EncodeFollowing(const CopyMessage& message);
// INVALID_ARGUMENT: it is neither.
absl::StatusOr<CopyMessage> DecodeFollowing(uint32_t shard, const FollowingSays& says);

// In as many pieces as it takes. False: `send` returned false. REQUIRES: it is an Image or Steps.
bool SendLeading(const CopyMessage& message, const std::function<bool(const LeadingSays&)>& send);

// Puts the pieces of one stream together again. Not thread-safe.
class LeadingReader {
 public:
  explicit LeadingReader(uint32_t shard) : shard_(shard) {}
  // A message with its last piece. DATA_LOSS or INVALID_ARGUMENT: the pieces make none.
  absl::StatusOr<std::optional<CopyMessage>> Add(const LeadingSays& says);

 private:
  const uint32_t shard_;
  ShardPartReader parts_;
};

}  // namespace psgd
