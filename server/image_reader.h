// An image of a shard, as a leader sends it: a record, the pairs of its arrays, and their receipt.
#pragma once

#include <optional>

#include "server/journal.h"
#include "server/snapshot_reader.h"

namespace psgd {

// Not thread-safe.
class ImageReader {
 public:
  void Begin(const ShardRecord& record) {
    image_ = ShardImage{record, {}};
    pairs_.emplace();
  }
  absl::Status Add(absl::string_view key, absl::string_view value) {
    if (!pairs_) return absl::DataLossError("an array came before its image");
    return pairs_->Add(key, value);
  }
  // DATA_LOSS: these are not the pairs of the receipt.
  absl::StatusOr<ShardImage> Finish(const ShardReceipt& receipt) {
    if (!pairs_) return absl::DataLossError("an image ended that had not begun");
    PSGD_ASSIGN_OR_RETURN(image_.arrays, pairs_->Finish(receipt));
    pairs_.reset();
    return std::move(image_);
  }

 private:
  ShardImage image_;
  std::optional<SnapshotReader> pairs_;
};

}  // namespace psgd
