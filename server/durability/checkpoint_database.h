// One shard's part of a checkpoint as a RocksDB database.
#pragma once

#include <functional>
#include <string>

#include "common/status.h"
#include "server/durability/checkpoint_store.h"

namespace psgd {

// Hands out the pairs of a shard's database in the order of their keys, until `take` fails. The
// receipt gets their number and their checksum.
absl::Status ForEachPair(
    const ShardSnapshot& snapshot, ShardReceipt* receipt,
    const std::function<absl::Status(absl::string_view key, const std::string& value)>& take);

// Makes the database in `folder` and syncs all of it. REQUIRES: `folder` does not exist.
absl::StatusOr<ShardReceipt> WriteShardDatabase(const std::string& folder, uint32_t shard,
                                                const ShardSnapshot& snapshot);

// Compares every file with the receipt, then every value with its checksum. Writes nothing.
absl::StatusOr<ShardSnapshot> ReadShardDatabase(const std::string& folder,
                                                const ShardReceipt& receipt);

}  // namespace psgd
