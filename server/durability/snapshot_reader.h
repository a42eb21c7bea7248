// From the pairs of a shard's database to what the shard gave to the checkpoint. Trusts no pair.
#pragma once

#include <cstdint>
#include <map>

#include "absl/strings/string_view.h"
#include "common/bytes.h"
#include "common/status.h"
#include "server/durability/checkpoint_format.h"
#include "server/durability/checkpoint_store.h"

namespace psgd {

// What a shard's contents are as one number: all keys with the checksums of their values, in order.
void AddToContents(absl::string_view key, uint64_t value_checksum, Checksum* contents);

// Not thread-safe.
class SnapshotReader {
 public:
  // The next pair, in the order of keys. DATA_LOSS naming it, when it is damaged or fits no slice.
  absl::Status Add(absl::string_view key, absl::string_view value);
  // DATA_LOSS when these are not the pairs of the receipt.
  absl::StatusOr<ShardSnapshot> Finish(const ShardReceipt& receipt);

 private:
  absl::Status Absorb(const ValueKey& key, absl::string_view contents);

  ShardSnapshot snapshot_;
  std::map<uint32_t, SliceSnapshot> slices_;  // by id; a record comes before the arrays
  Checksum contents_;
  uint64_t values_ = 0;
};

}  // namespace psgd
