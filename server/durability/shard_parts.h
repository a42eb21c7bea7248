// A shard on its way from one server to another, in pieces: an image for a copy, the steps since
// the image, or a checkpoint's cut.
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
// Several entries share a piece.
bool SendEntries(uint32_t shard, const JournalEntries& entries,
                 const std::function<bool(const ShardPart&)>& send);
void EncodeEntries(uint64_t first, std::span<const JournalEntry> entries,
                   ShardPart::Entries* encoded);
absl::StatusOr<JournalEntries> DecodeEntries(const ShardPart::Entries& encoded);

// Joins the pieces of one message after the other. Not thread-safe.
class ShardPartReader {
 public:
  using Whole = std::variant<ShardImage, ShardCut, JournalEntries>;
  // Returns the whole once its last piece has come. DATA_LOSS: the pieces do not fit.
  absl::StatusOr<std::optional<Whole>> Add(const ShardPart& part);

 private:
  Whole whole_;
  std::optional<SnapshotReader> pairs_;
};

// The pieces of a shard that moves here. Not thread-safe.
class ArrivingShard {
 public:
  // Returns a checkpoint's cut once its last piece has come. DATA_LOSS: the pieces do not fit.
  absl::StatusOr<std::optional<ShardCut>> Add(const ShardPart& part);
  // DATA_LOSS: no image came.
  absl::StatusOr<ShardImage> TakeImage();
  // The latest consecutive entries.
  JournalEntries TakeEntries() { return std::exchange(entries_, {}); }

 private:
  ShardPartReader parts_;
  std::optional<ShardImage> image_;
  JournalEntries entries_;
};

}  // namespace psgd
