// A server that follows one shard over loopback, for ps-bench: the production stream, journal and
// shard of a follower without the run around them.
#pragma once

#include <memory>
#include <string>

#include "common/status.h"
#include "server/control/follower_set.h"
#include "server/durability/durable_shard.h"

namespace psgd {

// Not thread-safe.
class BenchFollower {
 public:
  // Follows the leader's shard, of which this is the image, and is required from then on.
  // `options`: of its own shard, whose journal is empty.
  static absl::StatusOr<std::unique_ptr<BenchFollower>> Start(DurableShardOptions options,
                                                              const ShardImage& image,
                                                              std::shared_ptr<FollowerSet> leader);
  ~BenchFollower();

  // Follows no more, and its journal is closed. An error: why it had stopped before.
  absl::Status Stop();

 private:
  struct Impl;
  explicit BenchFollower(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace psgd
