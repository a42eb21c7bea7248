// Turns the pairs of a shard's database into the shard's part of the checkpoint. Checks every pair.
#pragma once

#include <cstdint>
#include <map>

#include "absl/strings/string_view.h"
#include "common/bytes.h"
#include "common/status.h"
#include "server/durability/checkpoint_format.h"
#include "server/durability/checkpoint_store.h"

namespace psgd {

// Adds a pair to the checksum of a shard's contents: all keys with the checksums of their values,
// in order.
void AddToContents(absl::string_view key, uint64_t value_checksum, Checksum* contents);

// Not thread-safe.
class SnapshotReader {
 public:
  // Adds the next pair, in the order of keys. DATA_LOSS names a pair that is damaged or fits no
  // slice.
  absl::Status Add(absl::string_view key, absl::string_view value);
  // DATA_LOSS: the pairs are not the receipt's pairs.
  absl::StatusOr<ShardSnapshot> Finish(const ShardReceipt& receipt);

 private:
  absl::Status Absorb(const ValueKey& key, absl::string_view contents);

  ShardSnapshot snapshot_;
  std::map<uint32_t, SliceSnapshot> slices_;  // by id; a slice's record comes before its arrays
  Checksum contents_;
  uint64_t values_ = 0;
};

}  // namespace psgd
