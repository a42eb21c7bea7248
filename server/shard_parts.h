// A shard's arrays on their way from one server to another, piece by piece: an image of a shard that
// moves, or a checkpoint's cut.
#pragma once

#include <functional>
#include <optional>
#include <variant>

#include "proto/hosting.pb.h"
#include "server/journal.h"
#include "server/shard_core.h"
#include "server/snapshot_reader.h"

namespace psgd {

// False: `send` returned false.
bool SendImage(uint32_t shard, const ShardImage& image,
               const std::function<bool(const ShardPart&)>& send);
bool SendCut(uint32_t shard, const ShardCut& cut, const std::function<bool(const ShardPart&)>& send);

// Puts one after the other together again. Not thread-safe.
class ShardPartReader {
 public:
  using Whole = std::variant<ShardImage, ShardCut>;
  // The whole with its last piece. DATA_LOSS: they do not fit.
  absl::StatusOr<std::optional<Whole>> Add(const ShardPart& part);

 private:
  Whole whole_;
  std::optional<SnapshotReader> pairs_;
};

}  // namespace psgd
