// A shard on its way from one server to another, piece by piece: an image of one that moves or is
// followed, steps since then, or a checkpoint's cut.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "proto/peers.pb.h"
#include "server/durability/snapshot_reader.h"
#include "server/shard/journal.h"
#include "server/shard/shard_core.h"

namespace psgd {

// False: `send` returned false.
bool SendImage(uint32_t shard, const ShardImage& image,
               const std::function<bool(const ShardPart&)>& send);
bool SendCut(uint32_t shard, const ShardCut& cut,
             const std::function<bool(const ShardPart&)>& send);
// Some entries together.
bool SendEntries(uint32_t shard, const JournalEntries& entries,
                 const std::function<bool(const ShardPart&)>& send);
void EncodeEntries(uint64_t first, std::span<const JournalEntry> entries,
                   ShardPart::Entries* encoded);
absl::StatusOr<JournalEntries> DecodeEntries(const ShardPart::Entries& encoded);

// Puts one after the other together again. Not thread-safe.
class ShardPartReader {
 public:
  using Whole = std::variant<ShardImage, ShardCut, JournalEntries>;
  // The whole with its last piece. DATA_LOSS: they do not fit.
  absl::StatusOr<std::optional<Whole>> Add(const ShardPart& part);

 private:
  Whole whole_;
  std::optional<SnapshotReader> pairs_;
};

// What has come of a shard that moves here. Not thread-safe.
class ArrivingShard {
 public:
  // A checkpoint's cut, with its last piece. DATA_LOSS: as above.
  absl::StatusOr<std::optional<ShardCut>> Add(const ShardPart& part);
  // DATA_LOSS: none came.
  absl::StatusOr<ShardImage> TakeImage();
  // Those that came last, in one piece.
  JournalEntries TakeEntries() { return std::exchange(entries_, {}); }

 private:
  ShardPartReader parts_;
  std::optional<ShardImage> image_;
  JournalEntries entries_;
};

}  // namespace psgd
