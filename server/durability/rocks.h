// What all our RocksDB databases have in common.
#pragma once

#include <rocksdb/db.h>

#include <string>

#include "common/status.h"

namespace psgd {

// No log file beside the data, no background statistics, checksums throughout, no compression:
// trained weights and coded updates are noise to a compressor.
rocksdb::Options PlainDatabase();

// RocksDB's own threads start now. They may run where the calling thread may; otherwise they start
// when a database first needs them.
void StartRocksThreads();

// Adds to the error which database failed, and what to do.
absl::Status FromRocks(const rocksdb::Status& status, const std::string& folder);

}  // namespace psgd
