// Messages between the copies of a shard, as streams carry them.
#pragma once

#include <functional>
#include <optional>

#include "proto/peers.pb.h"
#include "server/cluster/copy_message.h"
#include "server/durability/shard_parts.h"

namespace psgd {

// Counts changes of what servers say to each other, and of how a step counts: a copy must make the
// same weights of it.
inline constexpr uint32_t kPeerProtocol = 3;

// REQUIRES: `message` is a Has or a Written.
FollowingSays EncodeFollowing(const CopyMessage& message);
// INVALID_ARGUMENT: `says` is neither.
absl::StatusOr<CopyMessage> DecodeFollowing(uint32_t shard, const FollowingSays& says);

// Sends the message in as many pieces as needed. False: `send` returned false. REQUIRES: `message`
// is an Image or Steps.
bool SendLeading(const CopyMessage& message, const std::function<bool(const LeadingSays&)>& send);

// Joins the pieces of one stream. Not thread-safe.
class LeadingReader {
 public:
  explicit LeadingReader(uint32_t shard) : shard_(shard) {}
  // Returns a message once its last piece has come. DATA_LOSS or INVALID_ARGUMENT: the pieces make
  // no message.
  absl::StatusOr<std::optional<CopyMessage>> Add(const LeadingSays& says);

 private:
  const uint32_t shard_;
  ShardPartReader parts_;
};

}  // namespace psgd
