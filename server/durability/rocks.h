// What every RocksDB database of ours has in common.
#pragma once

#include <rocksdb/db.h>

#include <memory>
#include <string>

#include "common/status.h"

namespace psgd {

// No log file beside the data, no background statistics, checksums throughout, no compression:
// trained weights and coded updates are noise to a compressor.
rocksdb::Options PlainDatabase();

// Says which database, and what to do about it.
absl::Status FromRocks(const rocksdb::Status& status, const std::string& folder);

}  // namespace psgd
