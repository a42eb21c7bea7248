// One shard's part of a checkpoint as a RocksDB database.
#pragma once

#include <string>

#include "common/status.h"
#include "server/checkpoint_store.h"

namespace psgd {

// Makes the database in `folder`, which must not exist, and syncs all of it.
absl::StatusOr<ShardReceipt> WriteShardDatabase(const std::string& folder, uint32_t shard,
                                                const ShardSnapshot& snapshot);

// Compares every file with the receipt, then every value with its checksum. Writes nothing.
absl::StatusOr<ShardSnapshot> ReadShardDatabase(const std::string& folder,
                                                const ShardReceipt& receipt);

}  // namespace psgd
