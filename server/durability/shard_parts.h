// What servers send each other of a shard: an image or a checkpoint's cut, in pieces, and steps.
#pragma once

#include <functional>
#include <optional>
#include <span>
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
void EncodeEntries(uint64_t first, std::span<const JournalEntry> entries,
                   ShardPart::Entries* encoded);
absl::StatusOr<JournalEntries> DecodeEntries(const ShardPart::Entries& encoded);

// Joins the pieces of one message after the other. Not thread-safe.
class ShardPartReader {
 public:
  using Whole = std::variant<ShardImage, ShardCut>;
  // Returns the whole once its last piece has come. DATA_LOSS: the pieces do not fit.
  absl::StatusOr<std::optional<Whole>> Add(const ShardPart& part);

 private:
  Whole whole_;
  std::optional<SnapshotReader> pairs_;
};

}  // namespace psgd
